SELECT template, version, class, is_strict, subject, preheader, sender, html, plain, headers, created FROM template_versions WHERE template = ? AND version = ?
