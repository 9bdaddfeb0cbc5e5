-- The same on each server that keeps a part of `events` (docs/scale.md). A table that the
-- head does not use stays empty, and is there for the day when it moves to this server.
CREATE DATABASE sluice;
CREATE USER spider@'10.0.0.%' IDENTIFIED BY 'PASSWORD';
GRANT ALL ON sluice.* TO spider@'10.0.0.%';
USE sluice;
CREATE TABLE events_0 (
  event_id    VARCHAR(128)      NOT NULL,
  kind        ENUM('mail', 'custom', 'purchase', 'system') NOT NULL,
  name        VARCHAR(255)      NOT NULL,
  app_id      VARCHAR(64)       NOT NULL,
  time        DATETIME(3)       NOT NULL,
  email       VARCHAR(254)      NULL,
  user_ref    VARCHAR(128)      NULL,
  message_ref VARCHAR(128)      NULL,
  properties  LONGTEXT          NULL,
  part        SMALLINT UNSIGNED NOT NULL,
  pos_major   BIGINT UNSIGNED   NOT NULL,
  pos_minor   INT UNSIGNED      NOT NULL,
  item        INT UNSIGNED      NOT NULL,
  PRIMARY KEY (time, event_id),
  KEY log_position (part, pos_major, pos_minor, item)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
CREATE TABLE events_1 LIKE events_0;
CREATE TABLE events_2 LIKE events_0;
CREATE TABLE events_3 LIKE events_0;
CREATE TABLE events_4 LIKE events_0;
CREATE TABLE events_5 LIKE events_0;
CREATE TABLE events_6 LIKE events_0;
