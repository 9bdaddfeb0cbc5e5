SELECT COUNT(*) FROM templates
