SELECT journey, unit, slot, number, hash FROM journey_blocks WHERE part = ? ORDER BY journey, unit, slot
