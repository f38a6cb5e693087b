package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// outputFlag chooses between a table for people and JSON for programs. What is in the JSON is kept
// from version to version; the table may change.
type outputFlag struct{ format string }

const (
	outputTable = "table"
	outputJSON  = "json"
)

func (f *outputFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.format, "output", "o", outputTable, "table or json")
	bindEnv(cmd.Flags(), "output", "PERCOLATOR_OUTPUT")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{outputTable, outputJSON}, cobra.ShellCompDirectiveNoFileComp))
}

func (f *outputFlag) check() error {
	if f.format != outputTable && f.format != outputJSON {
		return usagef("--output %q is neither table nor json", f.format)
	}
	return nil
}

// emit writes v as JSON, or has asTable write it.
func (f *outputFlag) emit(w io.Writer, v any, asTable func(w io.Writer) error) error {
	if f.format != outputJSON {
		return asTable(w)
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(v)
}

// table lines columns up. Cells are shown as they are: what comes from the store goes through shown
// or oneLine first.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, head ...string) table {
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(head) > 0 {
		t.row(toAny(head)...)
	}
	return t
}

func toAny(texts []string) []any {
	out := make([]any, len(texts))
	for i, text := range texts {
		out[i] = text
	}
	return out
}

// row adds a line; what cannot be written is reported by flush.
func (t table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = fmt.Sprint(c)
	}
	_, _ = fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

func (t table) flush() error { return t.w.Flush() }
