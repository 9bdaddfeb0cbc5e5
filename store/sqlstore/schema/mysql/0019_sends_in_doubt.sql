-- Readable from version 17
-- The other databases get indexes of the sends in doubt; send_state_part, which is
-- there already, has them as well, by partition.
DO 0;
