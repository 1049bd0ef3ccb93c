-- Stores: keys and values that several processes see. TCPStore is served by one of them.
local torch = torch
local error = torch._raise
local native = torch._dist
local arguments = require "torch.utils.arguments"

local stores = {}

---@class Store
local Store = {__name = "Store"}
Store.__index = Store

local function key_of(self, key)
  if type(key) ~= "string" then error(("Store: a key is a text, not %s"):format(type(key)), 3) end
  return self.prefix .. key
end

---Sets a key's value.
function Store:set(key, value) self.store:set(key_of(self, key), tostring(value)) end
---The value of a key; waits until it is set.
---@return string
function Store:get(key) return self.store:get(key_of(self, key), self.timeout) end
---Adds to the number that a key has (0, when it is missing); the new one.
---@return integer
function Store:add(key, amount) return self.store:add(key_of(self, key), amount) end
---Sets a key if it has the expected value, or is missing and "" is expected; what it has then.
---@return string
function Store:compare_set(key, expected, desired) return self.store:compare_set(key_of(self, key), expected, desired) end
---Whether all keys are set.
---@return boolean
function Store:check(keys)
  for _, key in ipairs(keys) do
    if self.store:try_get(key_of(self, key)) == nil then return false end
  end
  return true
end
---Waits until all keys are set.
function Store:wait(keys, timeout)
  for _, key in ipairs(keys) do self.store:get(key_of(self, key), timeout or self.timeout) end
end
---@return boolean # whether it was there
function Store:delete_key(key) return self.store:delete_key(key_of(self, key)) end
---@return integer
function Store:num_keys() return self.store:num_keys() end
---Seconds that get and wait wait.
function Store:set_timeout(seconds) self.timeout = seconds end
function Store.__tostring(self) return ("store at %s"):format(self.address or "this process") end

---A store that one process serves (is_master) and others connect to. On one machine they prove who they are by themselves;
---on several, TYCHO_TOKEN is the same for all. port 0: a free one, then in `.port`.
---@param host_name string
---@param port integer
---@param world_size? integer with wait_for_workers: how many connect before the master goes on
---@param is_master? boolean
---@param timeout? number seconds, 300 unless given
---@return Store
function stores.TCPStore(...)
  local o = arguments("TCPStore", {"host_name", "port", "world_size", "is_master", "timeout", "wait_for_workers", "multi_tenant",
    "master_listen_fd", "use_libuv", needed = 2}, {timeout = 300, wait_for_workers = true}, ...)
  local store, host, port = native.tcp_store(o.host_name, o.port, o.is_master and true or false, o.timeout)
  local self = setmetatable({store = store, prefix = "", timeout = o.timeout, host = host, port = port,
    address = ("%s:%d"):format(host, port), is_master = o.is_master and true or false}, Store)
  if o.world_size and o.wait_for_workers then
    local here = store:add("tycho/workers", 1)
    if here >= o.world_size then store:set("tycho/complete", "1") end
    store:get("tycho/complete", o.timeout)
  end
  return self
end

---The same store, with a prefix before each key.
---@param prefix string
---@param store Store
---@return Store
function stores.PrefixStore(prefix, store)
  if getmetatable(store) ~= Store then error("PrefixStore: wants a text and a store", 2) end
  return setmetatable({store = store.store, prefix = store.prefix .. prefix .. "/", timeout = store.timeout, host = store.host,
    port = store.port, address = store.address}, Store)
end

---A store of this process alone.
---@return Store
function stores.HashStore()
  return setmetatable({store = native.local_store(), prefix = "", timeout = 300}, Store)
end

---Where the ranks that a store connects can meet.
function stores.native(store)
  if getmetatable(store) ~= Store then error("init_process_group: store wants a dist.TCPStore", 3) end
  return store.store
end

return stores
