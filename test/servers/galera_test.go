package servers

import "testing"

// Three nodes are one cluster. One that was killed comes back with what it missed.
func TestGalera(t *testing.T) {
	t.Parallel()
	g, err := StartGalera(t.Context(), t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	if err := g.Nodes[1].CreateDatabase(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if err := g.Nodes[0].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := g.await(t.Context(), g.Nodes[1], 2); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Nodes[1].say(t.Context(), "CREATE TABLE a.a AS SELECT 7 AS n"); err != nil {
		t.Fatal(err)
	}
	if err := g.Rejoin(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if got, err := g.Nodes[0].say(t.Context(), "SELECT n FROM a.a"); err != nil || got != "7" {
		t.Errorf("the node that came back says %q (%v), want 7", got, err)
	}
}
