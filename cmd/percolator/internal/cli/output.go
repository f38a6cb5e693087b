package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/internal/text"
)

// Output chooses between a table for people and JSON for programs. What is in the JSON is kept
// from version to version; the table may change.
type Output struct{ Format string }

const (
	outputTable = "table"
	JSON        = "json"
)

// Add adds --output.
func (f *Output) Add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.Format, "output", "o", outputTable, "table or json [$PERCOLATOR_OUTPUT]")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{outputTable, JSON}, cobra.ShellCompDirectiveNoFileComp))
}

// IsJSON reports whether a program reads the output.
func (f *Output) IsJSON() bool { return f.Format == JSON }

// checkOutput refuses other formats, for every command that has the flag.
func checkOutput(cmd *cobra.Command) error {
	flag := cmd.Flags().Lookup("output")
	if flag == nil || flag.Value.String() == outputTable || flag.Value.String() == JSON {
		return nil
	}
	return Usagef("--output %q is neither table nor json%s", flag.Value, text.DidYouMean(flag.Value.String(), outputTable, JSON))
}

// Emit writes v as JSON, or has asTable write it. What asTable could not write, emit returns.
func (f *Output) Emit(w io.Writer, v any, asTable func(w io.Writer)) error {
	if !f.IsJSON() {
		printed := &stickyWriter{Writer: w}
		asTable(printed)
		return printed.failed
	}
	text, err := EncodeJSON("", v)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// EncodeJSON is v for programs, and harmless to people who look at it. Its lines begin with prefix.
func EncodeJSON(prefix string, v any) ([]byte, error) {
	var encoded bytes.Buffer
	out := json.NewEncoder(&encoded)
	out.SetIndent(prefix, "  ")
	out.SetEscapeHTML(false)
	err := out.Encode(v)
	return text.JSON(encoded.Bytes()), err
}

// EmitText writes v as JSON, or text as a line.
func (f *Output) EmitText(w io.Writer, v any, text string) error {
	return f.Emit(w, v, func(w io.Writer) { _, _ = fmt.Fprintln(w, text) })
}

// Array is an array in JSON: empty, and not null, where there is nothing.
func Array[S, T any](list []S, of func(S) T) []T {
	return ordered.Map(list, of)
}

// Table lines columns up. Keys, names and values go through shown or shownValue first: a cell
// cannot tell what belongs to it.
type Table struct{ w *tabwriter.Writer }

// NewTable is a table below its head, which may be empty.
func NewTable(w io.Writer, head ...string) Table {
	t := Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(head) > 0 {
		_, _ = fmt.Fprintln(t.w, strings.Join(head, "\t"))
	}
	return t
}

// Row adds a line, which flush writes.
func (t Table) Row(cells ...any) {
	texts := Array(cells, func(c any) string { return text.Line(fmt.Sprint(c)) })
	_, _ = fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

// Flush writes the rows. Whoever prints one table need not look at the error: emit returns it.
func (t Table) Flush() error { return t.w.Flush() }
