-- Python's texts written in Lua: quotes of every kind, and values in f"..{x:.3f}..".
local Parser = require "torch.foreign.parse"

-- A text as Lua has it, from one between Python's quotes.
local function quote(token, percent)
  local content, mark = token.content, token.mark
  content = token.prefix:find "r" and content:gsub("\\", "\\\\") or content:gsub("\\u(%x%x%x%x)", "\\u{%1}"):gsub("\\([^nrtabfvxzu\\\"'%d\n])", "\\\\%1")
  if percent then content = content:gsub("%%", "%%%%") end
  if #mark == 3 then
    if content:find("\n", 1, true) then
      if not content:find("]]", 1, true) and not content:find("\\", 1, true) then return nil, "[[" .. content .. "]]" end
      content = content:gsub("\n", "\\n")
    end
    content, mark = content:gsub('\\?"', '\\"'), '"'
  end
  return content, mark .. content .. mark
end

-- {x:>8.3f}: the part behind the colon as string.format has it, and the value.
local function spec_of(spec, value)
  if spec == "" then return "%s", value end
  if spec:find "^.[<>^]" then spec = spec:sub(2) end
  local align, sign, zero, width, _, digits, kind = spec:match "^([<>^]?)([+ ]?)(0?)(%d*)([,_]?)(%.?%d*)([%a%%]?)$"
  if not align then return "%s", value end
  local lead = "%" .. (align == "<" and "-" or "") .. sign .. zero .. width .. digits
  if kind == "%" then return lead .. "f%%", "100 * " .. value end
  if kind == "" then kind = digits ~= "" and "g" or "s" end
  if kind == "b" then kind = "x" end
  return lead .. kind, value
end

Parser.spec_of = spec_of

local function formatted(w, parts)
  local form, args, mark = {}, {}, nil
  for _, token in ipairs(parts) do
    mark = mark or (#token.mark == 3 and '"' or token.mark)
    local content = (quote(token)) or token.content:gsub("\n", "\\n")
    if token.prefix:find "f" then
      local at = 1
      while at <= #content do
        local brace = content:find("[{}]", at)
        if not brace then
          form[#form + 1] = content:sub(at):gsub("%%", "%%%%")
          break
        end
        form[#form + 1] = content:sub(at, brace - 1):gsub("%%", "%%%%")
        local c = content:sub(brace, brace)
        if content:sub(brace + 1, brace + 1) == c then
          form[#form + 1], at = c, brace + 2
        else
          local inside = content:match("^%b{}", brace)
          if not inside then Parser.fail() end
          local text = inside:sub(2, -2)
          -- The first colon outside of brackets and quotes begins the format.
          local depth, split, conversion, inner = 0, nil, nil, nil
          for i = 1, #text do
            local d = text:sub(i, i)
            if inner then
              if d == inner then inner = nil end
            elseif d == "'" or d == '"' then
              inner = d
            elseif d:find "[%(%[{]" then
              depth = depth + 1
            elseif d:find "[%)%]}]" then
              depth = depth - 1
            elseif depth == 0 and d == "!" and text:sub(i + 1, i + 1) ~= "=" then
              conversion = conversion or i
            elseif depth == 0 and d == ":" and not split and not text:find("^:%a[%w_]*%(", i) then
              split = i
            end
          end
          local stop = math.min(split or #text + 1, conversion or #text + 1)
          local code, spec = text:sub(1, stop - 1), split and text:sub(split + 1) or ""
          if code:find "[^=!<>]=%s*$" then
            form[#form + 1] = code:gsub("%%", "%%%%")
            code = code:gsub("=%s*$", "")
          end
          local tree = Parser.of_text(code)
          if not tree then Parser.fail() end
          local value, level = w:write(tree)
          local written, changed = spec_of(spec, level < 11 and "(" .. value .. ")" or value)
          form[#form + 1] = written
          args[#args + 1] = changed == "(" .. value .. ")" and value or changed
          at = brace + #inside
        end
      end
    else
      form[#form + 1] = (content:gsub("%%", "%%%%"))
    end
  end
  local text = table.concat(form)
  w.said "f"
  if #args == 0 then return mark .. text:gsub("%%%%", "%%") .. mark, 20, true end
  return ("(%s%s%s):format(%s)"):format(mark, text, mark, table.concat(args, ", ")), 20, true
end

return function(w, e)
  for _, token in ipairs(e.parts) do
    if token.prefix:find "f" then return formatted(w, e.parts) end
  end
  local out = {}
  for k, token in ipairs(e.parts) do
    local _, text = quote(token)
    if #token.mark == 3 then w.said "long" end
    out[k] = text
  end
  return table.concat(out, " .. "), #out == 1 and 20 or 9, true
end
