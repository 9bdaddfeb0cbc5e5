SELECT $COLUMNS FROM (SELECT message, number FROM ($PARTS) AS doubts ORDER BY message, number LIMIT ?) AS page JOIN sends USING (message, number) ORDER BY message, number
