package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/gopercolator/percolator/internal/text"
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

// Ask returns an error unless the user agrees to what cannot be undone.
func Ask(ctx context.Context, cmd *cobra.Command, yes bool, format string, args ...any) error {
	if yes {
		return nil
	}
	_, _ = fmt.Fprint(cmd.ErrOrStderr(), text.Line(fmt.Sprintf(format, args...)), " [y/N] ")
	line, err := await(ctx, func() (string, error) {
		line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // no answer is no
		return line, nil
	})
	if err != nil {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr())
		return fmt.Errorf("not confirmed: %w", err)
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer == "y" || answer == "yes" {
		return nil
	}
	_, _ = fmt.Fprintln(cmd.ErrOrStderr())
	return Usagef("not confirmed; --yes does without the question")
}
