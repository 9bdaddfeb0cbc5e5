SELECT class, state, $SUM FROM send_totals GROUP BY class, state ORDER BY class, state
