package main

import (
	"context"

	"sluice/journey/desk"
)

// journeyDiff shows the lines that apply would add to the draft and take out of it.
func (c *call) journeyDiff(ctx context.Context, d *desk.Desk, name string) error {
	w, err := c.journeyFile(name)
	if err != nil {
		return err
	}
	doc, err := desk.Read(w)
	if err != nil {
		return ofFile(name, err)
	}
	text, err := doc.Text()
	if err != nil {
		return err
	}
	after, err := indented(text)
	if err != nil {
		return err
	}
	j, there, err := c.journeyThere(ctx, d, doc.ID)
	if err != nil {
		return err
	}
	var before []string
	if there {
		if before, err = indented(j.Draft); err != nil {
			return err
		}
	}
	shown := aroundChanges(diffLines(before, after))
	for _, line := range shown {
		c.print("%s", safeText(line))
	}
	if len(shown) == 0 {
		c.print("journey %s: nothing would change", doc.ID)
	}
	return nil
}

// diffContext is how many lines around a change are shown.
const diffContext = 3

// aroundChanges leaves out lines that are far from a change.
func aroundChanges(lines []string) (near []string) {
	last := -1 // the last line that is shown
	for i, line := range lines {
		if line[0] == ' ' {
			continue
		}
		from, to := max(i-diffContext, last+1), min(i+diffContext, len(lines)-1)
		if last >= 0 && from > last+1 {
			near = append(near, "...")
		}
		for at := from; at <= to; at++ {
			near = append(near, lines[at])
		}
		last = max(last, to)
	}
	return near
}

// maxDiffCells bounds the search for what is alike: 4 bytes each. Beyond it all lines
// between the first and the last change are shown as others.
const maxDiffCells = 16 << 20

// diffLines returns the lines of both texts with "+", "-" or " " before each: those of a
// longest common sequence are there once. What is alike at both ends is left out of the
// search, which takes time and memory by the product of what is left.
func diffLines(before, after []string) (all []string) {
	same := 0
	for same < len(before) && same < len(after) && before[same] == after[same] {
		all = append(all, " "+before[same])
		same++
	}
	before, after = before[same:], after[same:]
	tail := 0
	for tail < len(before) && tail < len(after) && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	ends := before[len(before)-tail:]
	before, after = before[:len(before)-tail], after[:len(after)-tail]
	if (len(before)+1)*(len(after)+1) > maxDiffCells {
		for _, line := range before {
			all = append(all, "-"+line)
		}
		before = nil
	}
	longest := make([][]int32, len(before)+1) // of what is behind each pair
	for i := range longest {
		longest[i] = make([]int32, len(after)+1)
	}
	for i := len(before) - 1; i >= 0; i-- {
		for j := len(after) - 1; j >= 0; j-- {
			if longest[i][j] = max(longest[i+1][j], longest[i][j+1]); before[i] == after[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			}
		}
	}
	i, j := 0, 0
	for i < len(before) || j < len(after) {
		switch {
		case i < len(before) && j < len(after) && before[i] == after[j]:
			all = append(all, " "+before[i])
			i, j = i+1, j+1
		case i < len(before) && (j == len(after) || longest[i+1][j] >= longest[i][j+1]):
			all = append(all, "-"+before[i])
			i++
		default:
			all = append(all, "+"+after[j])
			j++
		}
	}
	for _, line := range ends {
		all = append(all, " "+line)
	}
	return all
}
