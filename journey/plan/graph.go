package plan

import "strings"

// edge is a way from a step to another, and where it is written.
type edge struct {
	from, to int
	place    string
}

// graph finds ways that lead back, and steps that nothing leads to.
//
// A way back is refused because a person's place is a step and an occurrence: one who
// came to a step a second time could not be told from one who is there still. What is
// to be repeated is a journey that people enter again.
func (c *compiler) graph() {
	ways := make([][]edge, len(c.doc.Steps))
	led := make([]bool, len(c.doc.Steps))
	for _, e := range c.edges {
		ways[e.from] = append(ways[e.from], e)
		led[e.to] = led[e.to] || e.from != e.to
	}
	w := walk{c: c, ways: ways, state: make([]byte, len(ways))}
	for i := range ways {
		if i == 0 || w.state[i] == unseen && !led[i] {
			if i > 0 && !c.lost && !c.isBad(join(c.places[i], "id")) {
				c.wrong(c.places[i], "no step leads here: name it in the next of another, or remove it")
			}
			w.visit(i)
		}
	}
	for i := range ways { // those that only lead to each other
		w.visit(i)
	}
}

const (
	unseen byte = iota
	onTheWay
	seen
)

type walk struct {
	c     *compiler
	ways  [][]edge
	state []byte
	way   []int
}

func (w *walk) visit(step int) {
	if w.state[step] != unseen {
		return
	}
	w.state[step] = onTheWay
	w.way = append(w.way, step)
	for _, e := range w.ways[step] {
		if w.state[e.to] == onTheWay {
			w.c.wrong(e.place, "want a step further on: this way leads back (%s). What is to be repeated is a journey that people enter again (entry.again_after)", w.circle(e.to))
			continue
		}
		w.visit(e.to)
	}
	w.way = w.way[:len(w.way)-1]
	w.state[step] = seen
}

// circle writes the way from a step to the last one, and back.
func (w *walk) circle(to int) string {
	var ids []string
	for i, step := range w.way {
		if step == to {
			for _, s := range w.way[i:] {
				ids = append(ids, w.c.doc.Steps[s].ID)
			}
			break
		}
	}
	return strings.Join(append(ids, w.c.doc.Steps[to].ID), " > ")
}
