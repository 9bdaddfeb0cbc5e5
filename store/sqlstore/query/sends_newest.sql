SELECT $COLUMNS FROM sends WHERE accepted <= ? AND (accepted < ? OR message < ? OR (message = ? AND number < ?)) ORDER BY accepted DESC, message DESC, number DESC LIMIT ?
