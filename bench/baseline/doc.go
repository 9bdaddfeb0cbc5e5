// Package baseline holds the designs that Sluice replaces, as good engineers
// would write them today, and the yardstick of the database's own bulk load.
// They are measured beside it in one run and are part of nothing else. Two of
// them lose events when they die, as the originals did.
package baseline
