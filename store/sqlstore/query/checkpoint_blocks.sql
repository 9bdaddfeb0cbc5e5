SELECT journey, unit, slot, number, data FROM journey_blocks WHERE part = ? ORDER BY journey, unit, slot
