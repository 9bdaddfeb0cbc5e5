SELECT attempts FROM route_days WHERE route = ? AND day = ?
