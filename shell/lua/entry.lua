-- What was typed, turned into something to run: pasted prompts go, a line that begins with `:` or
-- `.` continues the last value, the last expression is returned, and Lua's complaint becomes either
-- "there is more to come" or a message with the place of the wrong token.
local T = require("torch.language").text
local entry = {}

local syntax = require "torch.syntax"
local try, wants_more, wrong, locate, describe = syntax.try, syntax.wants_more, syntax.wrong, syntax.locate, syntax.describe
entry.tokens, entry.line_and_column, entry.wrong = syntax.tokens, syntax.line_and_column, wrong

-- Prompts as they are pasted; `continues` are those of further lines.
local prompts = {"^In %[%d+%]: ?", "^%.%.%.> ", "^%[%d+%][^%S\n]*%a*%*?> ?", "^th> ?", "^lesson> ?", "^>>> ?", "^>> ?", "^> ?"}
local continues = {"^%.%.%.>? ?", "^ +%.%.%.+: ?"}

-- The line without its prompt, and whether it continues the one before; nil without a prompt.
local function without_prompt(line, first)
  for _, pattern in ipairs(continues) do
    local _, last = line:find(pattern)
    if last and first then return line:sub(last + 1), true end
  end
  for _, pattern in ipairs(prompts) do
    local _, last = line:find(pattern)
    -- In Lua's own prompt, >> stands before further lines.
    if last then return line:sub(last + 1), first ~= nil and pattern == "^>> ?" and first:find("^> ") ~= nil end
  end
end

-- The entries of a pasted text without the prompts in front of their lines, and without what they had
-- printed; the text itself when its first line has no prompt.
---@return string[]
function entry.pasted(text)
  if not without_prompt(text) then return {text} end
  local out, first = {}, nil
  local function finish(one)
    if not one then return end
    -- Lines without a prompt are what was printed, unless they are needed.
    local only = table.concat(one.prompted, "\n")
    local whole = #one.prompted == #one.all or try(only, "=") or try("return " .. only, "=")
    out[#out + 1] = whole and only or table.concat(one.all, "\n")
  end
  local one
  for line in (text .. "\n"):gmatch("(.-)\n") do
    local rest, more = without_prompt(line, first)
    if rest and not more then
      finish(one)
      one = {all = {}, prompted = {}}
      first = first or line
    end
    one.all[#one.all + 1] = rest or line
    one.prompted[#one.prompted + 1] = rest
  end
  finish(one)
  return out
end

-- Where the last statement may begin: after the last semicolons, newlines and blocks outside of everything.
local function cuts(text, tokens)
  local out = {}
  for i = #tokens, 2, -1 do
    local before, token = tokens[i - 1], tokens[i]
    if token.block == 0 and token.bracket == 0 and before.block == 0 and before.bracket == 0 then
      local semicolon, newline = before.text == ";", text:find("\n", before.last + 1, true)
      if semicolon or before.text == "end" or newline and newline < token.first then
        out[#out + 1] = {at = token.first, sure = token.kind == "name" or semicolon}
        if #out == 8 or semicolon then break end
      end
    end
  end
  return out
end

-- The ways to read an entry, best first: as an expression, with its last expression returned, as it
-- stands. Returns the text to compile, or nil and what is wrong.
---@param text string
---@return string|nil code, table tokens or the failure
function entry.read(text, again)
  local tokens = entry.tokens(text)
  if #tokens == 0 then
    if try(text, "=") then return "", tokens end
    return nil, {kind = "incomplete", message = T"a comment is not complete"}
  end
  if tokens[1].text == "=" and not again then  -- `=x` prints in Lua 5.1's prompt
    return entry.read(text:sub(1, tokens[1].first - 1) .. " " .. text:sub(tokens[1].last + 1), true)
  end
  local more = false
  local function attempt(code)
    local chunk, message = try(code, "=[1]")
    more = more or wants_more(message)
    return chunk and code, message
  end
  local code, as_expression = attempt("return " .. text)
  if code then return code, tokens end
  local body = text
  if tokens[#tokens].text == ";" and #tokens > 1 then body = text:sub(1, tokens[#tokens].first - 1) end
  local places = cuts(body, body == text and tokens or entry.tokens(body))
  local function returned(cut)
    return attempt(body:sub(1, cut.at - 1) .. "return " .. body:sub(cut.at))
  end
  for _, cut in ipairs(places) do
    code = cut.sure and returned(cut)
    if code then return code, tokens end
  end
  local as_it_stands
  code, as_it_stands = attempt(text)
  if code then return code, tokens end
  for _, cut in ipairs(places) do
    code = not cut.sure and returned(cut)
    if code then return code, tokens end
  end
  local colon = more and text:find "[:[{/]" and require("torch.foreign").waits(text)
  if colon then return nil, wrong(text, colon, 1, ("unexpected '%s'"):format(text:sub(colon, colon))) end  -- a block of Python's: Lua would wait for its end
  if more then return nil, {kind = "incomplete", message = T"the entry is not complete"} end
  local at, width, what, token = locate(text, tokens, as_it_stands, "")
  local at2, width2, what2, token2 = locate(text, tokens, as_expression, "return ")
  if token2 and at2 > at then at, width, what, token = at2, width2, what2, token2 end
  return nil, wrong(text, at, width, describe(what, token))
end

---@return boolean quiet the entry ends with a semicolon: nothing is printed
function entry.is_quiet(tokens)
  return #tokens > 0 and tokens[#tokens].text == ";"
end

-- `local` outside of every block is taken away, so that the names stay for the session.
-- Returns the new text, the names kept and those declared <const>; or nil and what is wrong.
function entry.keep_locals(text)
  local tokens, edits, kept, constants = entry.tokens(text), {}, {}, {}
  local function blank(first, last) edits[#edits + 1] = {first, last, (" "):rep(last - first + 1)} end
  for i, token in ipairs(tokens) do
    local after = tokens[i + 1]
    if token.kind == "keyword" and token.text == "local" and token.block == 0 and after and after.text ~= "_ENV" then
      if after.text == "function" then
        blank(token.first, token.last)
        kept[#kept + 1] = tokens[i + 2] and tokens[i + 2].text
      else
        blank(token.first, token.last)
        local j = i + 1
        while tokens[j] and tokens[j].kind == "name" do
          local name = tokens[j].text
          kept[#kept + 1] = name
          j = j + 1
          if tokens[j] and tokens[j].text == "<" and tokens[j + 2] and tokens[j + 2].text == ">" then
            if tokens[j + 1].text == "close" then
              local width = tokens[j + 2].last - tokens[j].first + 1
              return nil, wrong(text, tokens[j].first, width,
                T('"local %s <close>" would never close at the prompt; write do local %s <close> = ... end'):format(name, name))
            end
            constants[#constants + 1] = name
            blank(tokens[j].first, tokens[j + 2].last)
            j = j + 3
          end
          if not (tokens[j] and tokens[j].text == ",") then break end
          j = j + 1
        end
        if not (tokens[j] and tokens[j].text == "=") then
          local at = tokens[j - 1].last
          edits[#edits + 1] = {at + 1, at, " = nil"}
        end
      end
    end
  end
  local out, from = {}, 1
  for _, edit in ipairs(edits) do
    out[#out + 1] = text:sub(from, edit[1] - 1)
    out[#out + 1] = edit[3]
    from = edit[2] + 1
  end
  out[#out + 1] = text:sub(from)
  return table.concat(out), kept, constants
end

-- Names that the entry assigns outside of functions: what %who calls their origin.
function entry.assigned(tokens)
  local names, inside = {}, {}
  for i, token in ipairs(tokens) do
    if token.kind == "keyword" and token.text == "function" then
      local name = tokens[i + 1]
      if #inside == 0 and name and name.kind == "name" then names[#names + 1] = name.text end
      inside[#inside + 1] = token.block
    elseif token.kind == "keyword" and token.text == "end" and inside[#inside] == token.block then
      inside[#inside] = nil
    elseif #inside == 0 and token.text == "=" and token.kind == "op" and token.bracket == 0 then
      local j = i - 1
      while tokens[j] and tokens[j].kind == "name" do
        local before = tokens[j - 1]
        if before and (before.text == "." or before.text == ":") then break end
        names[#names + 1] = tokens[j].text
        if not (before and before.text == ",") then break end
        j = j - 2
      end
    end
  end
  return names
end

return entry
