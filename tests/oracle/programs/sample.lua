-- Closures, coroutines (without stacks of their own), string matching, sorting, errors.
local state = 11
local function random(n)
  state = (state * 1103515245 + 12345) % 2147483648
  return state % n
end

local function counter(start)
  return function(by)
    start = start + by
    return start
  end
end

local function fibonacci(n)
  if n < 2 then return n end
  return fibonacci(n - 1) + fibonacci(n - 2)
end

local total = 0
for round = 1, tonumber(arg and arg[1]) or 60 do
  local numbers = {}
  for i = 1, 400 do numbers[i] = random(5000) end
  table.sort(numbers, function(a, b) return a > b end)
  total = total + numbers[200]
  local add = counter(round)
  for i = 1, 100 do total = total + add(i) % 7 end
  local text = table.concat(numbers, " ")
  local changed = text:gsub("(%d)(%d)", "%2%1")
  for word in changed:gmatch("%d+") do total = total + #word end
  local generate = coroutine.wrap(function()
    for i = 1, 50 do coroutine.yield(i * round) end
  end)
  for _ = 1, 50 do total = total + generate() % 3 end
  local good, err = pcall(function() error({ code = round }) end)
  total = total + (good and 0 or err.code)
  local object = setmetatable({}, { __index = function(_, key) return #key end })
  total = total + object.something + fibonacci(14)
  total = total + #string.format("%8.3f %5d %s %x", round / 7, round, "text", round * 99)
end
print("lua", total)
