SELECT b.journey, b.unit, b.slot, b.number, b.data FROM journey_blocks b WHERE b.part = ? AND b.number <= ?
  AND NOT EXISTS (SELECT 1 FROM journey_blocks o WHERE o.part = b.part AND o.journey = b.journey AND o.unit = b.unit AND o.slot = 1 - b.slot AND o.number <= ? AND o.number > b.number)
ORDER BY b.journey, b.unit, b.slot
