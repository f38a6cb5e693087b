package health

import (
	"fmt"
	"time"

	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// Collection is how far collection has come.
type Collection struct {
	Now       tso.Timestamp
	Safepoint tso.Timestamp // 0: nothing was ever collected
	Watermark tso.Timestamp // nothing newer has been removed; 0: not known
	Retention time.Duration
	HeldBy    *model.Hold // the oldest one that lives; nil: there is none
	Corrupt   int64       // cells that the last cycle could not decode
}

// Findings judges it.
func (c Collection) Findings() (out []Finding) {
	if c.Corrupt > MostCorrupt {
		out = append(out, Finding{Level: Failed, Saw: fmt.Sprintf("the last cycle of collection met %d cells that it could not decode", c.Corrupt), Remedy: "percolator gc status",
			Advice: "They were left as they are. The log of the collector names them.", Runbook: "something-is-corrupt"})
	}
	if c.Safepoint == 0 {
		return append(out, Finding{Level: Warning, Saw: "nothing has ever been collected: workers do that, within a twelfth of the retention", Remedy: "percolator gc run",
			Advice: "Does a worker run, with collection?", Runbook: "alert-percolator-collection-lag"})
	}
	return append(out, c.lag())
}

func (c Collection) lag() Finding {
	back := c.Now.Sub(c.Safepoint)
	f := Finding{Level: OK, Saw: fmt.Sprintf("the safepoint is %s back, for a retention of %s", text.Age(back), c.Retention)}
	// Collectors announce collection again and again, and never finish.
	if c.Watermark > 0 && c.Now.Sub(c.Watermark) > CollectionSlow*c.Retention {
		back = c.Now.Sub(c.Watermark)
		f.Saw = fmt.Sprintf("what is %s old has not been collected, for a retention of %s", text.Age(back), c.Retention)
	}
	remedy, advice := "percolator gc run", "Does a worker run, with collection? Its log says what stops it."
	switch {
	case back > CollectionStuck*c.Retention:
		f.Level = Failed
	case back > CollectionSlow*c.Retention:
		f.Level = Warning
	}
	if c.HeldBy != nil && c.HeldBy.Timestamp <= c.Safepoint.Add(time.Second) {
		remedy, advice = "percolator gc hold ls", "Release the hold if nobody needs it any more."
		f.Saw += ", held by " + c.HeldBy.ID
		if f.Level == Failed {
			f.Level = Warning // on purpose, but the store grows
		} else {
			f.Level = OK
		}
	}
	if f.Level != OK {
		f.Remedy, f.Advice, f.Runbook = remedy, advice, "alert-percolator-collection-lag"
	}
	return f
}
