package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gopercolator/percolator/internal/catalog/values"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/tso"
)

// rowPage is the row inspector: what was asked for, and what is stored there.
type rowPage struct {
	Table, Key, AsOf string // as typed
	Values           bool
	Asked            bool
	Found            admin.RowInspection
	Browsed          *browsed // instead of a row
	HideURL, ShowURL string   // the same page with and without values
}

// browseLink is the address of the first rows of a table.
func browseLink(table string) string {
	return "row?" + url.Values{"table": {table}, "row": {""}, "browse": {"1"}}.Encode()
}

// rowLink is the address of the inspector for a row.
func rowLink(table, row string) string {
	return "row?" + url.Values{"table": {table}, "row": {text.Shown(row)}}.Encode()
}

// showRow inspects a row. It resolves no lock that it meets.
func (h *Handler) showRow(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := hurry(r)
	defer cancel()
	p := h.newPage(pageRow, nil, listQuery{})
	q := r.URL.Query()
	p.Row = &rowPage{Table: q.Get("table"), Key: q.Get("row"), AsOf: q.Get("asof"), Asked: q.Has("row")}
	p.Row.Values = q.Get("values") == "1" && h.cfg.ShowValues
	q.Set("values", "1")
	p.Row.ShowURL = "row?" + q.Encode()
	q.Del("values")
	p.Row.HideURL = "row?" + q.Encode()
	status := http.StatusOK
	look := h.inspect
	if p.Row.Asked && (q.Get("browse") == "1" || p.Row.Key == "") {
		look = func(ctx context.Context, p *rowPage) error { return h.browse(ctx, p, q.Get("after")) }
	}
	if p.Row.Asked {
		if err := look(ctx, p.Row); err != nil {
			p.Problem = new(problem)
			p.Problem.Text, p.Problem.Remedy, status = explain(err)
		}
		if p.Row.Browsed == nil {
			p.Now = p.Row.Found.Now.Time()
		}
	}
	h.write(w, r, status, p)
}

func (h *Handler) inspect(ctx context.Context, p *rowPage) error {
	key, err := text.FromShown(p.Key)
	if err != nil || key == "" {
		return fmt.Errorf("%w: a row is needed", errForm)
	}
	asOf, err := parseAsOf(p.AsOf, time.Now())
	if err != nil {
		return err
	}
	p.Found, err = h.admin.InspectRow(ctx, p.Table, key, admin.InspectOptions{AsOf: asOf, Values: p.Values, Cells: rowCells})
	return err
}

// rowCells is how much of each family a page shows.
const rowCells = 2000

// parseAsOf understands a timestamp, a time as in RFC 3339, and how long ago.
func parseAsOf(text string, now time.Time) (tso.Timestamp, error) {
	if text == "" {
		return 0, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
		return tso.Timestamp(n), nil
	}
	if at, err := values.ParseTime(time.RFC3339Nano, text); err == nil {
		return tso.At(at), nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return tso.At(now.Add(-ago)), nil
	}
	return 0, fmt.Errorf("%w: %q is neither a timestamp, nor a time like %s, nor a duration like 10m", errForm, text, "2026-01-31T15:04:05Z")
}

// used tells whether a reader takes its answer from a version: the record that decides, or the data
// that it names.
func used(r admin.ReaderView, v admin.VersionInspection) bool {
	if v.Timestamp == 0 || r.State != admin.ReaderValue && r.State != admin.ReaderDeleted {
		return false
	}
	return v.Write != nil && v.Timestamp == r.CommitTS || v.Data != nil && v.Timestamp == r.StartTS && r.State == admin.ReaderValue
}

// browsed are the rows of a table whose keys begin so.
type browsed struct {
	Keys []string
	Next string // the address of those that follow; "": none
}

// browsedRows is how many keys are listed at once.
const browsedRows = 50

// browse lists rows by a prefix of their keys, behind the row after.
func (h *Handler) browse(ctx context.Context, p *rowPage, after string) error {
	prefix, err := text.FromShown(p.Key)
	if err != nil {
		return errForm
	}
	r := percolator.Prefix(prefix)
	if after != "" {
		last, err := text.FromShown(after)
		if err != nil {
			return errForm
		}
		r.Start = max(r.Start, last+"\x00")
	}
	keys, more, err := h.admin.RowKeys(ctx, p.Table, r, browsedRows)
	if err != nil {
		return err
	}
	p.Browsed = &browsed{Keys: keys}
	if more {
		p.Browsed.Next = "row?" + url.Values{"table": {p.Table}, "row": {p.Key}, "browse": {"1"}, "after": {text.Shown(keys[len(keys)-1])}}.Encode()
	}
	return nil
}
