// Package plot draws horizontal bars as SVG: as much of a chart as a bench
// needs, without a library.
package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
)

// Chart is bars in groups; each group has a unit and a scale of its own.
type Chart struct {
	Title, Subtitle string
	Groups          []Group
}

// Group is bars of one unit.
type Group struct {
	Unit string
	Bars []Bar
}

// Bar is one bar. Text is its value as it is to be read. A negative value has
// no length.
type Bar struct {
	Label string
	Value float64
	Text  string
}

// Sizes in SVG's user units.
const (
	margin     = 16
	labelWidth = 430
	barWidth   = 320
	valueWidth = 110
	barHeight  = 18
	barStep    = 24
	groupGap   = 34
	headHeight = 56
)

// Write writes the chart as an SVG document.
func Write(w io.Writer, c Chart) error {
	width := margin + labelWidth + barWidth + valueWidth + margin
	height := headHeight + margin
	for _, g := range c.Groups {
		height += groupGap + barStep*len(g.Bars)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	text(&b, margin, 26, "start", `font-size="17" font-weight="bold"`, c.Title)
	text(&b, margin, 46, "start", `fill="#555"`, c.Subtitle)
	y := headHeight
	for _, g := range c.Groups {
		text(&b, margin+labelWidth, y+22, "start", `fill="#555"`, g.Unit)
		y += groupGap
		y = bars(&b, y, g.Bars)
	}
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

func bars(b *bytes.Buffer, y int, all []Bar) int {
	most := 0.0
	for _, bar := range all {
		most = max(most, bar.Value)
	}
	for _, bar := range all {
		length := 0.0
		if most > 0 {
			length = max(0, bar.Value/most*barWidth)
		}
		text(b, margin+labelWidth-8, y+14, "end", "", bar.Label)
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="#2b6cb0"/>`+"\n", margin+labelWidth, y, length, barHeight)
		fmt.Fprintf(b, `<text x="%.1f" y="%d">`, margin+labelWidth+length+6, y+14)
		escape(b, bar.Text)
		b.WriteString("</text>\n")
		y += barStep
	}
	return y
}

func text(b *bytes.Buffer, x, y int, anchor, attributes, s string) {
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="%s" %s>`, x, y, anchor, attributes)
	escape(b, s)
	b.WriteString("</text>\n")
}

// escape writes into a buffer, which takes everything.
func escape(b *bytes.Buffer, s string) { _ = xml.EscapeText(b, []byte(s)) }
