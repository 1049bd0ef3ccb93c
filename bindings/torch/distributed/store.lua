-- Stores of torch.distributed: keys and values that processes share. A key is set by one process and
-- waited for by others; a number is counted by all.
local torch = torch
local error = torch._raise

local Store = {__name = "Store"}
Store.__index = Store

local function seconds(who, timeout)
  if type(timeout) ~= "number" or timeout ~= timeout or timeout < 0 then
    error(("%s: timeout is %s; it is a number of seconds"):format(who, tostring(timeout)), 3)
  end
  return math.min(timeout, 1e9)
end

local function list(who, keys)
  if type(keys) == "string" then return {keys} end
  if type(keys) ~= "table" then error(("%s: wants a list of keys, {\"a\", \"b\"}, not %s"):format(who, type(keys)), 3) end
  return keys
end

---Sets a key to a text, and wakes who waits for it.
---@param key string
---@param value string
function Store:set(key, value) self._store:set(key, value) end

---Puts a text behind the value of a key, which is "" where it is not set.
---@param key string
---@param value string
function Store:append(key, value) self._store:append(key, value) end

---The value of a key; waits until it is set, at most the store's timeout.
---@param key string
---@return string
function Store:get(key) return self._store:get(key, self.timeout) end

---Adds to the number that a key holds, and gives the sum; a key that is not set counts as 0.
---@param key string
---@param amount integer
---@return integer
function Store:add(key, amount) return self._store:add(key, amount) end

---Sets a key if it has the value `expected`, or is not set and `expected` is ""; gives what it has then.
---@param key string
---@param expected string
---@param desired string
---@return string
function Store:compare_set(key, expected, desired) return self._store:compare_set(key, expected, desired) end

---Waits until all keys are set.
---@param keys string[]
---@param timeout? number seconds; the store's if nil
function Store:wait(keys, timeout)
  local left = seconds("wait", timeout == nil and self.timeout or timeout)
  local until_then = torch.perf_counter() + left
  for _, key in ipairs(list("wait", keys)) do
    local ok, err = pcall(self._store.get, self._store, key, math.max(0, until_then - torch.perf_counter()))
    if not ok then
      -- The time that was asked for, not what was left of it.
      if type(err) == "table" and err.reason == "timeout" then err.message = err.message:gsub("within %S+ s", ("within %g s"):format(left)) end
      error(err, 0)
    end
  end
end

---Whether all keys are set, without waiting.
---@param keys string[]
---@return boolean
function Store:check(keys)
  for _, key in ipairs(list("check", keys)) do
    if self._store:try_get(key) == nil then return false end
  end
  return true
end

---Takes a key away; whether it was there.
---@param key string
---@return boolean
function Store:delete_key(key) return self._store:delete_key(key) end

---How many keys are set.
---@return integer
function Store:num_keys() return self._store:num_keys() end

---The values of several keys; waits for each.
---@param keys string[]
---@return string[]
function Store:multi_get(keys)
  local values = {}
  for i, key in ipairs(list("multi_get", keys)) do values[i] = self:get(key) end
  return values
end

---Sets several keys.
---@param keys string[]
---@param values string[] as many
function Store:multi_set(keys, values)
  if #keys ~= #values then error(("multi_set: %d keys, but %d values"):format(#keys, #values), 2, "value") end
  for i, key in ipairs(keys) do self:set(key, values[i]) end
end

---From now on get and wait give up after so many seconds.
---@param timeout number seconds
function Store:set_timeout(timeout) self.timeout = seconds("set_timeout", timeout) end

---Another one of the same keys and values; a TCPStore gets a connection of its own.
function Store:clone() return self._clone() end

function Store:__tostring()
  return self.port and ("%s %s:%d"):format(self._as, self.host, self.port) or self._as
end

local function new(kind, as, store, fields)
  fields._store, fields._as = store, as
  return setmetatable(fields, kind)
end

-- A class of stores, made by calling it.
local function class(name, make)
  local kind = {__name = name, __tostring = Store.__tostring}
  kind.__index = kind
  return setmetatable(kind, {__name = name, __index = Store, __call = function(_, ...) return make(kind, ...) end})
end

local named = {host_name = 1, port = 2, world_size = 3, is_master = 4, timeout = 5, wait_for_workers = 6}

-- Positions and the names of a last table become one table.
local function arguments(...)
  local given, n = {}, select("#", ...)
  for i = 1, n do
    local value = select(i, ...)
    if i == n and type(value) == "table" then
      for name, v in next, value do
        if not named[name] then
          error(('TCPStore: no argument "%s" (it has: host_name, port, world_size, is_master, timeout, wait_for_workers)'):format(tostring(name)), 3)
        end
        given[named[name]] = v
      end
    else
      given[i] = value
    end
  end
  return given
end

---A store that one process serves by TCP and others connect to: `TCPStore(host_name, port, {is_master = true})`
---serves; port 0 takes a free one, which is then in `.port`. Processes of one user on one machine find each
---other without more; those of several machines need the same TYCHO_TOKEN.
local TCPStore = class("TCPStore", function(kind, ...)
  local a = arguments(...)
  local host, port, world, master, timeout = a[1], a[2], a[3], a[4], a[5]
  if type(host) ~= "string" then error(("TCPStore: host_name is %s; it is a text, as \"127.0.0.1\""):format(tostring(host)), 3) end
  if math.type(port) ~= "integer" then error(("TCPStore: port is %s; it is an integer"):format(tostring(port)), 3) end
  if world ~= nil and (math.type(world) ~= "integer" or world < 1) then
    error(("TCPStore: world_size is %s; it is a number of processes"):format(tostring(world)), 3)
  end
  timeout = seconds("TCPStore", timeout == nil and 300 or timeout)
  local store, at = torch._store.tcp(host, port, master and true or false, timeout)
  local self = new(kind, "TCPStore", store, {host = host, port = at, timeout = timeout})
  function self._clone() return getmetatable(self)(host, at, {timeout = self.timeout}) end
  if world then
    -- The server comes back when all have come, so that nobody is missed who comes late.
    local here = store:add("init/", 1)
    if here == world then store:set("init/all", "") end
    if master and a[6] ~= false then store:get("init/all", timeout) end
  end
  return self
end)

---A store of this process alone.
local HashStore = class("HashStore", function(kind)
  local self = new(kind, "HashStore", torch._store.hash(), {timeout = 300})
  function self._clone() return new(kind, "HashStore", self._store, {timeout = self.timeout, _clone = self._clone}) end
  return self
end)

---The same store, with "prefix/" before every key.
local PrefixStore = class("PrefixStore", function(kind, prefix, store)
  if getmetatable(store) == nil or type(store) ~= "table" or not rawget(store, "_store") then
    error(("PrefixStore: wants a store, not %s"):format(type(store)), 3)
  end
  local self = new(kind, "PrefixStore", torch._store.prefix(prefix, store._store), {timeout = store.timeout, underlying_store = store})
  function self._clone() return getmetatable(self)(prefix, store:clone()) end
  return self
end)

return {Store = Store, TCPStore = TCPStore, HashStore = HashStore, PrefixStore = PrefixStore}
