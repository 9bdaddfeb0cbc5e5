INSERT INTO template_versions (template, version, class, is_strict, subject, preheader, sender, html, plain, headers, created) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
