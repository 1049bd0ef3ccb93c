-- What stands where in the order of short and long lines: against sorting each of them.

test("the k-th values and medians of short lines are those of the sorted line", function()
  torch.manual_seed(11)
  for _, dtype in ipairs {"float32", "float64", "bfloat16", "int64", "int32", "uint8"} do
    for _, n in ipairs {1, 2, 3, 7, 18, 33, 64, 65} do
      for _, rows in ipairs {3, 8, 65, 200} do
        local x = torch.randint(0, 20, {rows, n}):to(torch[dtype])
        local y = x:transpose(1, 2):contiguous():transpose(1, 2)   -- the same, lying otherwise
        for _, k in ipairs {1, (n + 1) // 2, n} do
          local sorted, order = torch.sort(x, {dim = 2, stable = true})
          for _, t in ipairs {x, y} do
            local value, at = torch.kthvalue(t, k, 2)
            check.equal(value:tolist(), sorted:select(2, k):tolist())
            check.equal(t:gather(2, at:unsqueeze(2)):squeeze(2):tolist(), value:tolist())
          end
        end
        local value, at = x:median(2)
        check.equal(value:tolist(), torch.sort(x, {dim = 2}):select(2, (n + 1) // 2):tolist())
        check.equal(x:gather(2, at:unsqueeze(2)):squeeze(2):tolist(), value:tolist())
      end
    end
  end
end)

test("a median is the first nan of its line, and nanmedian passes them by", function()
  torch.manual_seed(12)
  for _, dtype in ipairs {"float32", "float64", "bfloat16"} do
    for _, n in ipairs {1, 2, 5, 16, 31} do
      local x = torch.randn(70, n):to(torch[dtype])
      for row = 1, 70, 3 do
        for _ = 1, math.random(n) do x[{row, math.random(n)}] = 0 / 0 end
      end
      local value, at = x:median(2)
      local without, there = x:nanmedian(2)
      for row = 1, 70 do
        local line, numbers, nan = x[{row}]:tolist(), {}, nil
        for i, v in ipairs(line) do
          if v ~= v then nan = nan or i else numbers[#numbers + 1] = v end
        end
        table.sort(numbers)
        local middle = numbers[(#numbers + 1) // 2]
        if nan then check.equal(at[{row}]:item(), nan) else check.equal(value[{row}]:item(), middle) end
        if middle then
          check.equal(without[{row}]:item(), middle)
          check.equal(line[there[{row}]:item()], middle)
        else
          check.yes(without[{row}]:isnan():item())
        end
      end
    end
  end
end)

test("long lines of wide numbers that differ in their last bits only, or in all, are sorted and keep the order of equals", function()
  torch.manual_seed(13)
  for _, n in ipairs {70, 300, 3000} do
    local near = torch.randint(0, 2 ^ 20, {n}):to(torch.int64)
    local lines = {
      torch.randn(n, {dtype = torch.float64}), torch.randn(n, {dtype = torch.float64}) * 1e-12 + 1,
      torch.randn(n):to(torch.float64):round(), near * (1 << 40) + torch.randint(0, 3, {n}), near - (1 << 62) * torch.randint(0, 2, {n}),
      torch.cat {torch.randint(0, 5, {n - 2}), torch.tensor {math.mininteger, math.maxinteger}},
    }
    lines[3][{5}], lines[3][{9}] = 0 / 0, 1 / 0
    for _, x in ipairs(lines) do
      for _, descending in ipairs {false, true} do
        local values, at = torch.sort(x, {stable = true, descending = descending})
        local v, i, before = values:tolist(), at:tolist(), x:tolist()
        for k = 1, n do
          check.yes(before[i[k]] == v[k] or v[k] ~= v[k])
          if k > 1 and v[k] == v[k] and v[k - 1] == v[k - 1] then
            check.yes(v[k - 1] == v[k] and i[k - 1] < i[k] or v[k - 1] ~= v[k] and (v[k - 1] > v[k]) == descending)
          end
        end
        for _, k in ipairs {1, 5, n // 8, n // 3, n} do
          check.equal(torch.topk(x, k, {largest = descending}):nan_to_num(7):tolist(), values:narrow(1, 1, k):nan_to_num(7):tolist())
          if not descending then check.equal(torch.kthvalue(x, k):nan_to_num(7):item(), values[{k}]:nan_to_num(7):item()) end
        end
      end
    end
  end
end)

test("rows of any length are sorted, equal numbers and nans in their order", function()
  for i = 1, 80 do
    local n, rows = torch.randint(2, 330, {1}):item(), torch.randint(1, 4, {1}):item()
    for _, dtype in ipairs {"float32", "float64", "int64", "int32", "bfloat16", "uint8"} do
      local x = (torch.randn(rows, n) * (dtype == "uint8" and 1 or 9)):abs():to(torch[dtype])
      if dtype == "float64" and i % 2 == 0 then x = x * 1e-300 end
      if i % 3 == 0 and dtype:find "float" then x[{1, n}], x[{1, 1}], x[{1, 2}] = 0 / 0, -0.0, 0.0 end
      for _, descending in ipairs {false, true} do
        local v, at = x:sort(2, descending)
        check.yes(torch.equal(torch.nan_to_num(x:gather(2, at):double(), -7), torch.nan_to_num(v:double(), -7)), dtype .. n)
        local a, b = v:narrow(2, 1, n - 1):double(), v:narrow(2, 2, n - 1):double()
        local first, second = at:narrow(2, 1, n - 1), at:narrow(2, 2, n - 1)
        local a_nan, b_nan = a:isnan(), b:isnan()
        local before = descending and (a:gt(b) | (a_nan & ~b_nan)) or (a:lt(b) | (b_nan & ~a_nan))
        local tied = (a:eq(b) | (a_nan & b_nan)) & first:lt(second)
        check.yes((before | tied):all():item(), dtype .. n)
      end
    end
  end
end)

test("long lines are sorted alike on any number of threads, and zeros and nans stay what they were", function()
  torch.manual_seed(14)
  local threads = torch.get_num_threads()
  for _, n in ipairs {5000, 70001, 200003} do
    for _, dtype in ipairs {"float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"} do
      local wide = torch.randn(n, {dtype = torch.float64}) * (dtype == "int64" and n % 2 == 1 and 2 ^ 60 or 50)
      local x = (dtype == "uint8" and wide:abs() or dtype == "bool" and wide:gt(0) or wide:clamp(-2 ^ 62, 2 ^ 62)):to(torch[dtype])
      if dtype:find "float" then
        x[{n}], x[{1}], x[{2}], x[{n // 2}], x[{7}], x[{n // 3}] = 0 / 0, -0.0, 0.0, -0.0, 1 / 0, -1 / 0
      end
      for _, descending in ipairs {false, true} do
        local values, at = {}, {}
        for t = 1, 3 do
          torch.set_num_threads(t)
          values[t], at[t] = torch.stack({x, x}):transpose(1, 2):select(2, 2):sort(1, descending)
        end
        for t = 2, 3 do check.yes(torch.equal(at[1], at[t]), dtype .. n) end
        local bits = x:element_size() == 8 and torch.int64 or x:element_size() == 4 and torch.int32 or
          x:element_size() == 2 and torch.int16 or torch.int8
        for t = 1, 3 do
          check.yes(torch.equal(values[t]:contiguous():view(bits), x:gather(1, at[t]):view(bits)), dtype .. n)
        end
        local a, b = values[1]:narrow(1, 1, n - 1):double(), values[1]:narrow(1, 2, n - 1):double()
        local tied = (a:eq(b) | (a:isnan() & b:isnan())) & at[1]:narrow(1, 1, n - 1):lt(at[1]:narrow(1, 2, n - 1))
        local before = descending and (a:gt(b) | (a:isnan() & ~b:isnan())) or (a:lt(b) | (b:isnan() & ~a:isnan()))
        check.yes((before | tied):all():item(), dtype .. n)
      end
    end
  end
  torch.set_num_threads(threads)
end)

test("the k best of a line are the first of it in order, however many they are", function()
  torch.manual_seed(15)
  for i = 1, 60 do
    local n = torch.randint(161, 2600, {1}):item()
    for _, dtype in ipairs {"float32", "bfloat16", "int32", "float64"} do
      local x = (torch.randn(3, n) * 20):to(torch[dtype])
      if i % 3 == 0 then x[{1}] = 5 end
      if i % 4 == 0 then x[{2}] = torch.arange(n):to(torch[dtype]) end
      if i % 5 == 0 and dtype:find "float" then x[{3}], x[{3, 4}] = 0 / 0, 1 end
      for _, largest in ipairs {false, true} do
        local k = math.max(1, math.floor(n / torch.randint(12, 200, {1}):item() * 10))
        local v, at = x:topk(math.min(k, n), 2, largest)
        local w, there = x:sort(2, largest)
        check.yes(torch.equal(at, there:narrow(2, 1, v:size(2))), dtype .. n .. " " .. k)
        check.yes(torch.equal(v:nan_to_num(-77), w:narrow(2, 1, v:size(2)):nan_to_num(-77)))
      end
    end
  end
end)
