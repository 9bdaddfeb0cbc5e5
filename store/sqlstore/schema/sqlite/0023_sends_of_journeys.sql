-- What a send is to journeys: the journey and the step that sent it (empty: none did), the
-- variant and the occurrence of the person there; when it was opened and clicked first
-- (NULL: never; first_human_open: not by a machine); and whether it counts for no cap.
ALTER TABLE sends ADD COLUMN journey TEXT NOT NULL DEFAULT '';
ALTER TABLE sends ADD COLUMN step TEXT NOT NULL DEFAULT '';
ALTER TABLE sends ADD COLUMN variant TEXT NOT NULL DEFAULT '';
ALTER TABLE sends ADD COLUMN occurrence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sends ADD COLUMN first_open INTEGER;
ALTER TABLE sends ADD COLUMN first_human_open INTEGER;
ALTER TABLE sends ADD COLUMN first_click INTEGER;
ALTER TABLE sends ADD COLUMN ignores_caps INTEGER NOT NULL DEFAULT 0;
