package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Terminal is w if it is one, else nil.
func Terminal(w io.Writer) *os.File {
	for o, ok := w.(*stickyWriter); ok; o, ok = w.(*stickyWriter) {
		w = o.Writer
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// Style is how a piece of text stands out on a terminal. What it says must be clear without it.
type Style string

// Styles, as the parameters of ANSI's "select graphic rendition".
const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Painter puts styles on text, where what is written is seen by a person.
type Painter bool

// PainterFor paints on terminals, unless NO_COLOR is set (https://no-color.org).
func PainterFor(w io.Writer) Painter {
	return Painter(os.Getenv("NO_COLOR") == "" && Terminal(w) != nil)
}

// Paint puts a style on a text.
func (p Painter) Paint(s Style, text string) string {
	if !bool(p) || s == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}
