-- When a send was clicked first by a person (NULL: never), and what its row remembers of
-- its clicks, by which they are judged (mail.Clicks; empty: nothing).
ALTER TABLE sends ADD COLUMN first_human_click INTEGER;
ALTER TABLE sends ADD COLUMN clicks TEXT NOT NULL DEFAULT '';
