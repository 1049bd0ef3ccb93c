-- The states of all random streams (the CPU's and every device's), to draw the same numbers again.
local torch = torch
local generators = {}

---The states of the CPU's stream and of some devices', or of all.
---@param devices? table
function generators.states(devices)
  local states = {[0] = torch.get_rng_state()}
  for i = 1, devices and #devices or torch.cuda.device_count() do
    states[i] = torch.cuda.get_rng_state(devices and devices[i] or i - 1)
  end
  states.devices = devices
  return states
end

---Puts these streams back to where they were.
function generators.set(states)
  torch.set_rng_state(states[0])
  for i = 1, #states do torch.cuda.set_rng_state(states[i], states.devices and states.devices[i] or i - 1) end
end

---Has nothing been drawn in between?
function generators.same(a, b)
  for i = 0, #a do
    if not torch.equal(a[i], b[i]) then return false end
  end
  return true
end

return generators
