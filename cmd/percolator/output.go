package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gopercolator/percolator/internal/text"
)

// outputFlag chooses between a table for people and JSON for programs. What is in the JSON is kept
// from version to version; the table may change.
type outputFlag struct{ format string }

const (
	outputTable = "table"
	outputJSON  = "json"
)

func (f *outputFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.format, "output", "o", outputTable, "table or json [$PERCOLATOR_OUTPUT]")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{outputTable, outputJSON}, cobra.ShellCompDirectiveNoFileComp))
}

// checkOutput refuses other formats, for every command that has the flag.
func checkOutput(cmd *cobra.Command) error {
	flag := cmd.Flags().Lookup("output")
	if flag == nil || flag.Value.String() == outputTable || flag.Value.String() == outputJSON {
		return nil
	}
	return usagef("--output %q is neither table nor json%s", flag.Value, text.DidYouMean(flag.Value.String(), outputTable, outputJSON))
}

// emit writes v as JSON, or has asTable write it. What asTable could not write, emit returns.
func (f *outputFlag) emit(w io.Writer, v any, asTable func(w io.Writer)) error {
	if f.format != outputJSON {
		printed := &stickyWriter{Writer: w}
		asTable(printed)
		return printed.failed
	}
	text, err := encodeJSON("", v)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// encodeJSON is v for programs, and harmless to people who look at it. Its lines begin with prefix.
func encodeJSON(prefix string, v any) ([]byte, error) {
	var encoded bytes.Buffer
	out := json.NewEncoder(&encoded)
	out.SetIndent(prefix, "  ")
	out.SetEscapeHTML(false)
	err := out.Encode(v)
	return text.JSON(encoded.Bytes()), err
}

// emitText writes v as JSON, or text as a line.
func (f *outputFlag) emitText(w io.Writer, v any, text string) error {
	return f.emit(w, v, func(w io.Writer) { _, _ = fmt.Fprintln(w, text) })
}

// arrayOf is an array in JSON: empty, and not null, where there is nothing.
func arrayOf[S, T any](list []S, of func(S) T) []T {
	out := make([]T, len(list))
	for i, e := range list {
		out[i] = of(e)
	}
	return out
}

// table lines columns up. Keys, names and values go through shown or shownValue first: a cell
// cannot tell what belongs to it.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, head ...string) table {
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(head) > 0 {
		_, _ = fmt.Fprintln(t.w, strings.Join(head, "\t"))
	}
	return t
}

// row adds a line, which flush writes.
func (t table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = text.Line(fmt.Sprint(c))
	}
	_, _ = fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

func (t table) flush() { _ = t.w.Flush() }
