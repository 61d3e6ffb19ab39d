-- Tables, closures, string patterns with callbacks, sorting, coroutines, pcall. Argument: rounds.
local seed = 42
local function next_number()
    seed = (seed * 1103515245 + 12345) % 2147483648
    return seed >> 8
end

local function permutations(list, n)
    if n == 0 then
        coroutine.yield(list)
    else
        for i = 1, n do
            list[i], list[n] = list[n], list[i]
            permutations(list, n - 1)
            list[i], list[n] = list[n], list[i]
        end
    end
end

local Queue = {}
Queue.__index = Queue
function Queue.new() return setmetatable({first = 1, last = 0}, Queue) end
function Queue:push(value) self.last = self.last + 1; self[self.last] = value end
function Queue:pop()
    if self.first > self.last then error("empty") end
    local value = self[self.first]
    self[self.first] = nil
    self.first = self.first + 1
    return value
end

for round = 1, tonumber(arg[1]) do
    local words, q = {}, Queue.new()
    for i = 1, 20000 do words[i] = string.format("w%d", next_number() % 5000) end
    table.sort(words, function(a, b) return a < b end)
    local text = table.concat(words, " ")
    local swapped, n = text:gsub("w(%d)(%d*)", function(a, b) return b .. a end)
    local sum = 0
    for list in coroutine.wrap(function() permutations({1, 2, 3, 4, 5, 6, 7}, 7) end) do
        sum = (sum * 31 + list[1] * 7 + list[7]) % 1000003
        q:push(sum)
    end
    while pcall(function() sum = (sum + q:pop()) % 1000003 end) do end
    print(round, #swapped, n, sum)
end
