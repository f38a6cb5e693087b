package console

import (
	"context"
	"net/url"

	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator"
)

// browsed are the rows of a table whose keys begin so.
type browsed struct {
	Keys []string
	Next string // the address of those that follow; "": none
}

// browsedRows is how many keys are listed at once.
const browsedRows = 50

// browse lists rows by a prefix of their keys, behind the row after.
func (h *Handler) browse(ctx context.Context, p *rowPage, after string) error {
	prefix, err := fromShown(p.Key)
	if err != nil {
		return errForm
	}
	r := percolator.Prefix(prefix)
	if after != "" {
		last, err := fromShown(after)
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
