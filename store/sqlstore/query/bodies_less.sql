UPDATE bodies SET remaining = remaining - ? WHERE n = 0 AND message IN ($NAMES)
