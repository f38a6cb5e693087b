package main

import (
	"io"
	"os"
)

// style is how a piece of text stands out on a terminal. What it says must be clear without it.
type style string

// Styles, as the parameters of ANSI's "select graphic rendition".
const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// painter puts styles on text, where what is written is seen by a person.
type painter bool

// painterFor paints on terminals, unless NO_COLOR is set (https://no-color.org).
func painterFor(w io.Writer) painter {
	return painter(os.Getenv("NO_COLOR") == "" && terminal(w) != nil)
}

func (p painter) paint(s style, text string) string {
	if !bool(p) || s == plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}
