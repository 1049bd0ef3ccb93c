-- The kernel of a notebook: Jupyter's requests, answered by the prompt's own session. What is said on the
-- wire, signatures, interrupts and the streams are native (shell/kernel.cpp).
local json = require "torch.json"
local native = require "shell.native"
local wire = native.kernel
local kernel = {behind = 0}

local protocol = "5.4"

-- An object of JSON: keys in order of their names; tables with `list` are arrays, others objects.
local function object(t)
  local names, out = {}, {}
  for name in next, t do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    local value = t[name]
    if type(value) == "table" and value ~= json.null then
      if value.list then
        local items = {}
        for k, item in ipairs(value.list) do items[k] = type(item) == "table" and not item[1] and next(item) and object(item) or item end
        value = items
      else
        value = object(value)
      end
    end
    out[i] = {name, value}
  end
  return {pairs = out}
end
local function text_of(content) return json.write(object(content)) end

local function publish(type, content) wire.publish(type, text_of(content)) end
local function reply(type, content)
  content.status = content.status or "ok"
  wire.reply(type, text_of(content))
end

-- Positions in a notebook count characters.
local function byte_of(text, characters)
  return utf8.len(text) and (utf8.offset(text, math.max(0, characters) + 1) or #text + 1) - 1 or math.min(characters, #text)
end
local function character_of(text, bytes) return utf8.len(text, 1, bytes) or bytes end
local function cursor_of(content)
  local code = content.code or ""
  return code, content.cursor_pos and byte_of(code, math.tointeger(content.cursor_pos) or #code) or #code
end

-- --- execution ---

local session
local cell = {}  -- of the request that runs: number, result (it has one), complaint (said last, and not shown yet)

local function say_complaint()
  if cell.complaint then io.stderr:write(cell.complaint, "\n") end
  cell.complaint = nil
end

-- What is wrong becomes the cell's error when it is the last thing that is said.
local function complain(text)
  say_complaint()
  cell.complaint = text
end

local function print_values(values, name)
  local written = rawequal(values[1], io.stdout) or rawequal(values[1], io.stderr)
  if values.n == 0 or values.n == 1 and written then return true end
  local ok, data, trace = native.guarded(require("shell.kernel.bundle").of, values, name)
  if not ok then
    session.report(data, trace)
    return false
  end
  if data["text/plain"] == "" then return true end
  if cell.result then
    publish("display_data", {data = data, metadata = {}})
  else
    cell.result = data["text/plain"]
    publish("execute_result", {execution_count = cell.number, data = data, metadata = {}})
  end
  return true
end

-- Figures and pictures, which the terminal gets as characters.
local function display(figure)
  local data = {["text/plain"] = figure.text()}
  if figure.svg then data["image/svg+xml"] = figure.svg() end
  if figure.png then data["image/png"] = torch._base64(figure.png()) end
  publish("display_data", {data = data, metadata = {}})
  return true
end

-- A cell's entries: lines that begin with %, ! or ? stand for themselves, as far as no code is open there.
local function entries_of(code)
  if session.mode or not code:find "\n" or not ("\n" .. code):find "\n[%%!?]" then return {code} end
  local out, open = {}, nil
  for line in (code .. "\n"):gmatch "(.-)\n" do
    if line:find "^[%%!?]" and (not open or not open:find "%S" or session.is_done(open)) and not (open and open:find "^[%%!?]") then
      if open and open:find "%S" then out[#out + 1] = open end
      open = line
      if session.is_done(line) then
        out[#out + 1], open = line, nil
      end
    else
      open = open and open .. "\n" .. line or line
      if open:find "^[%%!?]" and session.is_done(open) then
        out[#out + 1], open = open, nil
      end
    end
  end
  if open and open:find "%S" then out[#out + 1] = open end
  return out
end

local function error_content(text)
  local colour = require "shell.colour"
  local plain = colour.plain(text)
  local first = plain:match "^[^\n]*"
  local last = session.last_error
  local code, said = first:match "^error ([%u]+%-%d+): (.*)$"
  if not code then code, said = "error", first:match "^error: (.*)$" or first end
  if last and last.interrupted and plain:find "stopped" then code = "interrupted" end
  local lines = {}
  for line in (text .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
  return {ename = code, evalue = said, traceback = {list = lines}}
end

local function evaluated(expression)
  local ok, values = session.eval(expression)
  if not ok then
    local content = error_content("error: " .. require("shell.report").message(values))
    content.status = "error"
    return content
  end
  return {status = "ok", data = require("shell.kernel.bundle").of(values), metadata = {}}
end

local handlers = {}

function handlers.execute_request(content)
  local code = content.code or ""
  wire.allow_input(content.allow_stdin == true)
  cell = {number = session.number}
  local ok
  if content.silent then
    ok = session.eval(code)
  else
    publish("execute_input", {code = code, execution_count = cell.number})
    ok = true
    for _, entry in ipairs(entries_of(code)) do
      ok = session.run(entry)
      if not ok or session.ended then break end
    end
    session.number = math.max(session.number, cell.number + (code:find "%S" and 1 or 0))
    local record = session.entries[cell.number]
    if record then record.shown = cell.result end
  end
  if ok then
    say_complaint()
    local said = {}
    for name, expression in next, type(content.user_expressions) == "table" and content.user_expressions or {} do
      if type(expression) == "string" then said[name] = evaluated(expression) end
    end
    reply("execute_reply", {execution_count = cell.number, user_expressions = said, payload = {list = session.ended and {{source = "ask_exit", keepkernel = false}} or {}}})
    return
  end
  local failed = error_content(cell.complaint or "error: the entry failed")
  cell.complaint = nil
  if not content.silent then publish("error", failed) end
  failed.status, failed.execution_count = "error", cell.number
  -- Cells that were sent together with this one, before anybody could know of its error.
  kernel.behind = content.stop_on_error ~= false and wire.waiting() or 0
  reply("execute_reply", failed)
end

-- --- questions about code ---

function handlers.complete_request(content)
  local code, bytes = cursor_of(content)
  local ok, first, list = pcall(require "shell.complete", code, bytes)
  local matches = {}
  if ok then
    for i, item in ipairs(list) do matches[i] = type(item) == "table" and item.text or item end
  end
  local from = ok and math.min(first - 1, bytes) or bytes
  reply("complete_reply", {matches = {list = matches}, cursor_start = character_of(code, from), cursor_end = character_of(code, bytes), metadata = {}})
end

-- The name around the cursor, or that of the call that it stands in.
local function topic_at(code, bytes)
  local left = code:sub(1, bytes):match "[%w_.:]*$" .. code:sub(bytes + 1):match "^[%w_]*"
  local name = left:match "[%a_][%w_.:]*$"
  if name then return (name:gsub("[.:]+$", "")) end
  local depth = 0
  for at = math.min(bytes, #code), 1, -1 do
    local c = code:sub(at, at)
    if c:find "[%)%]}]" then depth = depth + 1 end
    if c:find "[%(%[{]" then
      if depth == 0 and c ~= "[" then
        local called = code:sub(1, at - 1):match "([%a_][%w_.:]*)%s*$"
        if called then return called end
      end
      depth = math.max(0, depth - 1)
    end
  end
end

function handlers.inspect_request(content)
  local code, bytes = cursor_of(content)
  local topic, page = topic_at(code, bytes), nil
  if topic then
    local ok, text = pcall(require("shell.help").page, (content.detail_level == 1 and "?" or "") .. topic, session)
    if ok and not text:find "^no help for" then page = text end
  end
  reply("inspect_reply", {found = page ~= nil, data = page and {["text/plain"] = page} or {}, metadata = {}})
end

function handlers.is_complete_request(content)
  local code = content.code or ""
  if not session.is_done(code) then
    local indent = require "shell.indent"(code .. "\n", #code + 1) or 0
    return reply("is_complete_reply", {status = "incomplete", indent = (" "):rep(indent)})
  end
  local handled = code:find "^%s*[%%!?]" or code:find "%?%s*$" or session.mode
  local ready, wrong = true, nil
  if not handled then ready, wrong = require("shell.entry").read(code) end
  reply("is_complete_reply", {status = (ready or wrong.kind ~= "wrong") and "complete" or "invalid"})
end

-- A pattern of a shell: * and ?.
local function matches_glob(text, glob)
  local pattern = glob:gsub("[%^%$%(%)%%%.%[%]%+%-]", "%%%0"):gsub("%*", ".*"):gsub("%?", ".")
  return text:find("^" .. pattern .. "$") ~= nil
end

function handlers.history_request(content)
  local numbers, rows = {}, {}
  for number, record in next, session.entries do
    if not record.private then numbers[#numbers + 1] = number end
  end
  table.sort(numbers)
  local kind, seen = content.hist_access_type, {}
  for i = #numbers, 1, -1 do
    local number, record = numbers[i], session.entries[numbers[i]]
    local wanted = kind ~= "search" or matches_glob(record.text, content.pattern or "*") and not (content.unique and seen[record.text])
    if kind == "range" then wanted = number >= (content.start or 0) and number < (content.stop or math.huge) end
    if wanted and (kind == "range" or not content.n or #rows < content.n) then
      seen[record.text] = true
      local item = record.text
      if content.output then item = {record.text, record.shown or json.null} end
      table.insert(rows, 1, {1, number, item})
    end
  end
  reply("history_reply", {history = {list = rows}})
end

-- --- the rest ---

local function info()
  return {
    status = "ok", protocol_version = protocol, implementation = "tycho", implementation_version = native.version,
    banner = require("shell.start").banner(),
    language_info = {name = "lua", version = _VERSION:match "[%d.]+", mimetype = "text/x-lua", file_extension = ".lua", pygments_lexer = "lua",
      codemirror_mode = "lua"},
    help_links = {list = {}},
  }
end

function handlers.kernel_info_request() reply("kernel_info_reply", info()) end
function handlers.comm_info_request() reply("comm_info_reply", {comms = {}}) end
function handlers.comm_open(content)  -- there is nobody behind any name
  publish("comm_close", {comm_id = content.comm_id or "", data = {}})
end
function handlers.shutdown_request(content)
  kernel.ended = true
  reply("shutdown_reply", {restart = content.restart == true})
end

local function handle(type, text)
  publish("status", {execution_state = "busy"})
  local handler = handlers[type]
  if handler then
    local ok, content = pcall(json.read, text, "the content of " .. type)
    if not ok or _G.type(content) ~= "table" then content = {} end
    local failure
    ok, failure = pcall(function()
      if kernel.aborting and type == "execute_request" then
        return reply("execute_reply", {status = "aborted", execution_count = session.number})
      end
      return handler(content)
    end)
    if not ok then
      io.stderr:write(("tycho kernel: %s: %s\n"):format(type, tostring(failure)))
      if type:find "_request$" then
        reply(type:gsub("_request$", "_reply"), {status = "error", ename = "kernel", evalue = tostring(failure), traceback = {list = {}}})
      end
    end
  end
  publish("status", {execution_state = "idle"})
end

-- After an error the cells that were sent together with it are not run.
local function abort_rest()
  kernel.aborting = true
  while kernel.behind > 0 and not kernel.ended do
    kernel.behind = kernel.behind - 1
    local type, text = wire.at_hand()
    if not type then break end
    handle(type, text)
  end
  kernel.aborting, kernel.behind = false, 0
end

local function loop()
  publish("status", {execution_state = "starting"})
  while not kernel.ended do
    local type, text = wire.next()
    if not type then break end
    handle(type, text)
    if kernel.behind > 0 then abort_rest() end
    kernel.ended = kernel.ended or session.ended
  end
end

-- --- the beginning ---

local ports = {shell = "shell_port", control = "control_port", iopub = "iopub_port", input = "stdin_port", heartbeat = "hb_port"}

-- What the connection file says, for wire.open; nil and what is wrong.
---@param path string
local function connection_of(path)
  local file, message = io.open(path, "rb")
  local text = file and file:read "a"
  if file then file:close() end
  if not text then return nil, ("the connection file cannot be read: %s"):format(message or path .. ": it is no file") end
  local ok, found = pcall(json.read, text, path)
  if not ok then return nil, "the connection file is damaged: " .. tostring(found) end
  if type(found) ~= "table" then return nil, ("the connection file is damaged: %s holds no object"):format(path) end
  local function wrong(name, what)
    local value = found[name]
    return nil, ('the connection file %s %s "%s"; %s'):format(path, value == nil and "has no" or ("has %s as"):format(tostring(value)), name, what)
  end
  local out = {transport = found.transport or "tcp", address = found.ip or "127.0.0.1", key = found.key or ""}
  if out.transport ~= "tcp" and out.transport ~= "ipc" then return wrong("transport", "tcp and ipc are known") end
  if type(out.address) ~= "string" then return wrong("ip", 'an address is wanted, as in "127.0.0.1"') end
  if type(out.key) ~= "string" then return wrong("key", "a text is wanted") end
  local scheme = found.signature_scheme or "hmac-sha256"
  out.digest = type(scheme) == "string" and scheme:match "^hmac%-(%w+)$"
  if not out.digest then return wrong("signature_scheme", "hmac-sha256 is usual") end
  for field, name in next, ports do
    local port = math.type(found[name]) and math.tointeger(found[name])
    if not port or port < 1 or port > 65535 then return wrong(name, "a port is a number from 1 to 65535") end
    out[field] = port
  end
  return out
end

-- The prompt's session, whose words go to the notebook.
local function prepare_session()
  session = require "shell.session"
  session.print, session.complain = print_values, complain
  require("shell.colour").on = true
  torch._display = display
  local exit = os.exit
  function os.exit(...)  -- what was written before reaches the notebook
    wire.close()
    exit(...)
  end
  require("torch.progress").place.window = function() return 80 end
  session.start(true, false, false)
  say_complaint()
end

---`tycho kernel -f FILE`.
---@param path string
---@return integer|function
function kernel.main(path)
  local connection, message = connection_of(path)
  local ok = connection ~= nil
  if ok then
    connection.info = text_of(info())
    ok, message = wire.open(connection)
  end
  if not ok then
    io.stderr:write("tycho: ", message, "\n")
    return 1
  end
  return function()
    prepare_session()
    loop()
    wire.close()
    return 0
  end
end

return kernel
