DELETE FROM journey_facts WHERE part = ? AND pos_major <= ? AND (pos_major < ? OR pos_minor < ? OR pos_minor = ? AND item <= ?)
