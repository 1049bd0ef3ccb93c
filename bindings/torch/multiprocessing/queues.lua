-- mp.Queue, mp.SimpleQueue, mp.JoinableQueue and mp.Pipe. A value is one packet of a socket, so nobody holds a lock while
-- it puts or gets, and a process that dies there harms nobody. Who waits for what cannot come any more is
-- told so.
local torch = torch
local error = torch._raise
local mp = package.loaded["torch.multiprocessing"]
local process = require "torch.multiprocessing.process"

local slice = 0.05  -- seconds between looks at who is still there
local forever = 1e9

---A word of memory that all processes share, from 0.
local function new_word()
  local word = torch.zeros({1}, {dtype = torch.int32})
  torch._share {word}
  return word
end

-- Raises an error that scripts tell by its field `reason`: "empty", "full", "closed".
local function raise(text, reason)
  local _, err = pcall(error, text, 4, "value")
  rawset(err, "reason", reason)
  error(err, 0)
end

-- The parent waits for a value, and nobody is left who could send one: says who ended how.
local function nobody(who)
  local bad, texts = {}, {}
  for _, p in ipairs(process.ended()) do
    local code = p.exitcode
    if code ~= 0 then
      local wrong = process.failure(p)
      bad[#bad + 1] = p
      texts[#texts + 1] = ("%s (pid %d) %s%s"):format(p.name, p.pid, process.end_text(code), wrong and ": " .. wrong.message or "")
    end
  end
  local why = #texts > 0 and table.concat(texts, "; ")
    or #process.ended() > 0 and "all processes that this one started have ended" or "no process has been started that could send it"
  local _, err = pcall(error, ("%s: nothing can come any more: %s"):format(who, why), 4, "distributed")
  rawset(err, "reason", #bad > 0 and "died" or "left")
  error(err, 0)
end

-- Waits for a value of a socket: true and the value, or false and why there is none.
local function receive(socket, seconds, who)
  local waited = 0
  while true do
    local step = math.min(slice, seconds - waited)
    -- Who ends has sent everything before: asked in this order, nothing is missed.
    local alone = not process.parent and torch._living_children() == 0 and torch._flush_sockets(0) == 0
    local got, value = socket:receive(alone and 0 or math.max(step, 0))
    if got or value == "closed" then return got, value end
    if alone and seconds > 0 then nobody(who) end
    waited = waited + step
    if waited >= seconds then return false, "empty" end
  end
end

-- put(x, block, timeout) and put(x, {block=, timeout=}); the seconds to wait.
local function patience(who, block, timeout)
  if type(block) == "table" then
    for k in next, block do
      if k ~= "block" and k ~= "timeout" then error(('%s: no argument "%s" (it has: block, timeout)'):format(who, tostring(k)), 3) end
    end
    block, timeout = block.block, block.timeout
  end
  if block ~= nil and type(block) ~= "boolean" then error(("%s: block wants true or false, not %s"):format(who, type(block)), 3) end
  if timeout == nil or timeout == torch.none then return block == false and 0 or forever end
  if type(timeout) ~= "number" or timeout ~= timeout then error(("%s: timeout wants seconds, not %s"):format(who, tostring(timeout)), 3) end
  return block == false and 0 or math.max(timeout, 0)
end

-- --- queues ---
local Queue = {__name = "Queue"}
Queue.__index = Queue

local function new_queue(_, maxsize)
  if type(maxsize) == "table" then maxsize = maxsize.maxsize end
  maxsize = maxsize or 0
  if math.type(maxsize) ~= "integer" then error(("Queue: maxsize wants an integer, not %s"):format(tostring(maxsize)), 3) end
  local front, back = torch._socket_pair()
  return setmetatable({_front = front, _back = back, _size = new_word(), _maxsize = maxsize}, Queue)
end

local function open(self, who)
  if getmetatable(self) == nil or not rawget(self, "_back") then error(who .. ": wants a queue: q:put(x), with a colon", 3) end
  if self._back:is_closed() then raise(who .. ": the queue was closed here", "closed") end
end

---Puts a value: any that can cross; tensors become shared ones. Waits only for room below maxsize.
---@param value any
---@param block? boolean|table false: raises when it is full; or {block=, timeout=}
---@param timeout? number seconds to wait for room
function Queue:put(value, block, timeout)
  open(self, "Queue.put")
  local seconds = patience("Queue.put", block, timeout)
  local size = self._size
  if self._maxsize > 0 then
    local waited, empty = 0, 0
    while not torch._word_below(size, self._maxsize, math.min(slice, seconds - waited)) do
      waited = waited + slice
      if waited >= seconds then raise(("Queue.put: the queue is full (maxsize = %d)"):format(self._maxsize), "full") end
      -- A process that died between counting and taking leaves the count too high.
      empty = self._front:ready() and 0 or empty + 1
      if empty > 2 then torch._word_set(size, 0) end
    end
  else
    torch._word_add(size, 1)
  end
  local ok, sent = pcall(self._back.send, self._back, value, "Queue.put", "the value")
  if not ok then
    torch._word_add(size, -1)
    error(sent, 0)
  end
end

---Takes the oldest value; waits for one.
---@param block? boolean|table false: raises when it is empty; or {block=, timeout=}
---@param timeout? number seconds to wait
function Queue:get(block, timeout)
  open(self, "Queue.get")
  local got, value = receive(self._front, patience("Queue.get", block, timeout), "Queue.get")
  if not got then raise("Queue.get: the queue is empty", "empty") end
  torch._word_add(self._size, -1)
  return value
end

---put(value), but raises at once when the queue is full.
function Queue:put_nowait(value) return self:put(value, false) end
---get(), but raises at once when the queue is empty.
function Queue:get_nowait() return self:get(false) end
---How many values are in it, about: others put and get meanwhile.
---@return integer
function Queue:qsize() return math.max(0, torch._word_get(self._size)) end
---Whether nothing is in it now.
---@return boolean
function Queue:empty()
  open(self, "Queue.empty")
  return not self._front:ready()
end
---Whether put would wait.
---@return boolean
function Queue:full() return self._maxsize > 0 and self:qsize() >= self._maxsize end
---This process uses the queue no more.
function Queue:close()
  self._front:close()
  self._back:close()
end
---Waits until what this process put has left it.
function Queue:join_thread() torch._flush_sockets(forever) end
function Queue:__tostring() return ("Queue (%d values)"):format(self:qsize()) end

-- --- pipes ---
local Connection = {__name = "Connection"}
Connection.__index = Connection

local function whole(self, who)
  if getmetatable(self) ~= Connection then error(who .. ": wants an end of a pipe: c:send(x), with a colon", 3) end
  if self._socket:is_closed() then raise(who .. ": this end of the pipe was closed", "closed") end
end

---Sends a value to the other end. It never waits.
---@param value any
function Connection:send(value)
  whole(self, "Connection.send")
  if self._only == "receive" then error("Connection.send: this end only receives (Pipe(false))", 2, "value") end
  if not self._socket:send(value, "Connection.send", "the value") then raise("Connection.send: the other end of the pipe is closed", "closed") end
end
---The next value from the other end; waits for it.
function Connection:recv()
  whole(self, "Connection.recv")
  if self._only == "send" then error("Connection.recv: this end only sends (Pipe(false))", 2, "value") end
  local got, value = receive(self._socket, forever, "Connection.recv")
  if not got then raise("Connection.recv: the other end of the pipe is closed", "closed") end
  return value
end
---Whether there is something to receive, within `timeout` seconds.
---@param timeout? number seconds, 0 when left out
---@return boolean
function Connection:poll(timeout)
  whole(self, "Connection.poll")
  if timeout ~= nil and type(timeout) ~= "number" then error("Connection.poll: timeout wants seconds, not " .. type(timeout), 2) end
  return self._socket:ready(math.max(timeout or 0, 0))
end
---This process uses this end no more.
function Connection:close() self._socket:close() end
function Connection:__tostring() return self._socket:is_closed() and "Connection (closed)" or "Connection" end

---Two ends of a pipe. What one sends the other receives; with false the first only receives and the second only sends.
---@param duplex? boolean default true
---@return table, table
function mp.Pipe(duplex)
  if type(duplex) == "table" then duplex = duplex.duplex end
  if duplex ~= nil and type(duplex) ~= "boolean" then error("Pipe: duplex wants true or false, not " .. type(duplex), 2) end
  local a, b = torch._socket_pair()
  return setmetatable({_socket = a, _only = duplex == false and "receive" or nil}, Connection),
    setmetatable({_socket = b, _only = duplex == false and "send" or nil}, Connection)
end

-- --- a queue that knows how much of what was put is done ---
local JoinableQueue = {__name = "JoinableQueue"}
JoinableQueue.__index = JoinableQueue
JoinableQueue.__tostring = Queue.__tostring

---Puts a value that somebody is to call task_done() for.
function JoinableQueue:put(value, block, timeout)
  open(self, "JoinableQueue.put")
  torch._word_add(self._open, 1)  -- first: who gets it may be done with it at once
  local ok, err = pcall(Queue.put, self, value, block, timeout)
  if not ok then
    torch._word_add(self._open, -1)
    error(err, 0)
  end
end
---One value that was got is dealt with.
function JoinableQueue:task_done()
  if torch._word_add(self._open, -1) < 0 then
    torch._word_add(self._open, 1)
    error("JoinableQueue.task_done: called more often than put", 2, "value")
  end
end
---Waits until task_done() was called for every value that was put.
function JoinableQueue:join()
  while true do
    local left = torch._word_get(self._open)
    if left <= 0 then return end
    local alone = not process.parent and torch._living_children() == 0
    if not torch._word_wait(self._open, left, slice) and alone then
      nobody(("JoinableQueue.join (%d values without task_done)"):format(left))
    end
  end
end

local function new_joinable(_, maxsize)
  local q = new_queue(nil, maxsize)
  q._open = new_word()
  return setmetatable(q, JoinableQueue)
end
mp.JoinableQueue = setmetatable(JoinableQueue, {__index = Queue, __call = new_joinable, __name = "JoinableQueue"})

mp.Queue = setmetatable(Queue, {__call = new_queue, __name = "Queue"})
mp.Connection = Connection
---A queue without a bound; the same as Queue().
mp.SimpleQueue = function() return new_queue(nil, 0) end

return {new_word = new_word, patience = patience, raise = raise}
