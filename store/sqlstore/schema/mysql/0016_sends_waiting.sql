-- The other databases get an index of the sends that wait here; send_state, which
-- is there already, has them as well.
DO 0;
