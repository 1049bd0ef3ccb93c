-- torch.nn.utils.rnn: sequences of different lengths, padded to one tensor or packed step by step.
local torch = torch
local error = torch._raise
local rnn = {}

local Packed = {}
Packed.__index = Packed
Packed.__name = "PackedSequence"

---Makes a packed sequence of its four parts.
function rnn.packed(data, batch_sizes, sorted_indices, unsorted_indices)
  return setmetatable({data = data, batch_sizes = batch_sizes, sorted_indices = sorted_indices, unsorted_indices = unsorted_indices}, Packed)
end
rnn.PackedSequence = rnn.packed
---Whether a value is a packed sequence.
function rnn.is_packed(x) return type(x) == "table" and getmetatable(x) == Packed end

---The packed sequence with its data moved or converted: to("cuda"), to("float64").
function Packed:to(...)
  return rnn.packed(self.data:to(...), self.batch_sizes, self.sorted_indices, self.unsorted_indices)
end
for _, name in ipairs {"float", "double", "half", "cpu", "cuda"} do
  Packed[name] = function(self) return rnn.packed(self.data[name](self.data), self.batch_sizes, self.sorted_indices, self.unsorted_indices) end
end
function Packed:__tostring()
  return ("PackedSequence(data=%s, batch_sizes=%s)"):format(tostring(self.data), tostring(self.batch_sizes))
end

---Sequences [L_i, ..] of different lengths as one tensor [T, N, ..].
---@param sequences table a list of tensors
---@param options? {batch_first?: boolean, padding_value?: number, padding_side?: string} padding_side: "right" or "left"
function rnn.pad_sequence(sequences, batch_first, padding_value)
  local options = type(batch_first) == "table" and batch_first or {batch_first = batch_first, padding_value = padding_value}
  if type(sequences) ~= "table" or #sequences == 0 then error("pad_sequence: wants a list of tensors", 2) end
  local longest = 0
  for _, s in ipairs(sequences) do longest = math.max(longest, s:size(1)) end
  local rows = {}
  for i, s in ipairs(sequences) do
    local missing = longest - s:size(1)
    if missing > 0 then
      local shape = {missing}
      for d = 2, s.ndim do shape[d] = s:size(d) end
      local fill = torch.full(shape, options.padding_value or 0, {dtype = s.dtype, device = s.device})
      s = torch.cat(options.padding_side == "left" and {fill, s} or {s, fill}, 1)
    end
    rows[i] = s
  end
  return torch.stack(rows, options.batch_first and 1 or 2)
end

---The sequences of a padded tensor, cut to their lengths: a list.
function rnn.unpad_sequence(padded, lengths, batch_first)
  if type(batch_first) == "table" then batch_first = batch_first.batch_first end
  local out = {}
  local n = torch.is_tensor(lengths) and lengths:tolist() or lengths
  for i, length in ipairs(n) do out[i] = padded:select(batch_first and 1 or 2, i):narrow(1, 1, length) end
  return out
end

---Packs a padded tensor [T, N, ..] whose sequences have the given lengths, for RNN, LSTM and GRU.
---@param input any
---@param lengths table|userdata one length per sequence
---@param options? {batch_first?: boolean, enforce_sorted?: boolean} enforce_sorted (true): lengths fall; false: any order
function rnn.pack_padded_sequence(input, lengths, batch_first, enforce_sorted)
  local options = type(batch_first) == "table" and batch_first or {batch_first = batch_first, enforce_sorted = enforce_sorted}
  if not torch.is_tensor(input) or input.ndim < 2 then error("pack_padded_sequence: wants a tensor [T, N, ..]", 2) end
  if not torch.is_tensor(lengths) and type(lengths) ~= "table" then error("pack_padded_sequence: lengths must be a list or a tensor", 2) end
  if options.batch_first then input = input:transpose(1, 2) end
  local n = torch.is_tensor(lengths) and lengths:tolist() or table.move(lengths, 1, #lengths, 1, {})
  if #n ~= input:size(2) then
    error(("pack_padded_sequence: %d lengths for %d sequences"):format(#n, input:size(2)), 2, "shape")
  end
  local sorted, unsorted
  if options.enforce_sorted == false then
    local lengths_sorted, order = torch.sort(torch.tensor(n, {dtype = "int64"}), {dim = 1, descending = true, stable = true})
    sorted, unsorted = order:to(input.device), torch.argsort(order):to(input.device)
    n = lengths_sorted:tolist()
    input = input:index_select(2, sorted)
  end
  for i, length in ipairs(n) do
    if length <= 0 or length > input:size(1) then
      error(("pack_padded_sequence: length %s of sequence %d is not between 1 and %d"):format(tostring(length), i, input:size(1)), 2, "value")
    end
    if i > 1 and length > n[i - 1] then
      error("pack_padded_sequence: lengths must fall from sequence to sequence; {enforce_sorted=false} sorts them", 2, "value")
    end
  end
  local steps, sizes, active = {}, {}, #n
  for t = 1, n[1] do
    while n[active] < t do active = active - 1 end
    sizes[t] = active
    steps[t] = input[t]:narrow(1, 1, active)
  end
  return rnn.packed(torch.cat(steps, 1), torch.tensor(sizes, {dtype = "int64"}), sorted, unsorted)
end

---Packs a list of sequences [L_i, ..].
---@param sequences table
---@param options? {enforce_sorted?: boolean}
function rnn.pack_sequence(sequences, options)
  local sorted = options
  if type(options) == "table" then sorted = options.enforce_sorted end
  local lengths = {}
  for i, s in ipairs(sequences) do lengths[i] = s:size(1) end
  return rnn.pack_padded_sequence(rnn.pad_sequence(sequences), lengths, {enforce_sorted = sorted})
end

---Undoes pack_padded_sequence: a padded tensor and the lengths.
---@param packed table
---@param options? {batch_first?: boolean, padding_value?: number, total_length?: integer}
function rnn.pad_packed_sequence(packed, batch_first, padding_value, total_length)
  local options = type(batch_first) == "table" and batch_first
    or {batch_first = batch_first, padding_value = padding_value, total_length = total_length}
  if not rnn.is_packed(packed) then error("pad_packed_sequence: wants a packed sequence, not a " .. type(packed), 2) end
  local sizes, data = packed.batch_sizes:tolist(), packed.data
  local total = options.total_length or #sizes
  if total < #sizes then
    error(("pad_packed_sequence: total_length %d is less than the longest sequence, %d"):format(total, #sizes), 2, "value")
  end
  local rest, steps, lengths, at = {}, {}, {}, 1
  for d = 2, data.ndim do rest[d] = data:size(d) end
  for t = 1, total do
    local size = sizes[t] or 0
    local missing = sizes[1] - size
    local parts = {}
    if size > 0 then parts[1] = data:narrow(1, at, size) end
    if missing > 0 then
      rest[1] = missing
      parts[#parts + 1] = torch.full(rest, options.padding_value or 0, {dtype = data.dtype, device = data.device})
    end
    steps[t] = torch.cat(parts, 1)
    at = at + size
    for i = 1, size do lengths[i] = t end
  end
  local out, n = torch.stack(steps, 1), torch.tensor(lengths, {dtype = "int64"})
  if packed.unsorted_indices then
    out, n = out:index_select(2, packed.unsorted_indices), n:index_select(1, packed.unsorted_indices:cpu())
  end
  if options.batch_first then out = out:transpose(1, 2) end
  return out, n
end

---The sequences of a packed sequence: a list of tensors.
function rnn.unpack_sequence(packed)
  local padded, lengths = rnn.pad_packed_sequence(packed)
  return rnn.unpad_sequence(padded, lengths)
end

return rnn
