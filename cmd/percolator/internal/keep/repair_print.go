package keep

import (
	"fmt"
	"io"
	"strings"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/cmd/percolator/internal/look"
	"github.com/gopercolator/percolator/internal/ordered"
	"github.com/gopercolator/percolator/internal/text"
	"github.com/gopercolator/percolator/percolator/model"
	"github.com/gopercolator/percolator/tso"
)

// repairJSON is what "repair" prints for programs. Names are as shown.
type repairJSON struct {
	To     tso.Timestamp `json:"to"`
	Floor  tso.Timestamp `json:"floor"`           // snapshots at or below it are refused
	Until  tso.Timestamp `json:"until,omitempty"` // so are those above To, up to here
	DryRun bool          `json:"dryRun"`

	RolledForward  int64 `json:"rolledForward"`
	RolledBack     int64 `json:"rolledBack"`
	Records        int64 `json:"records"`
	Markers        int64 `json:"markers"`
	Values         int64 `json:"values"`
	Notifications  int64 `json:"notifications"`
	States         int64 `json:"states"`
	Renotified     int64 `json:"renotified"`
	WeakRenotified int64 `json:"weakRenotified"`
	Holds          int   `json:"holds"`
	Positions      int   `json:"positions"`

	Building []string            `json:"building"` // indexes that have to be built again
	Weak     []string            `json:"weak"`     // columns of which notifications may be lost
	Found    int                 `json:"found"`
	Findings []repairFindingJSON `json:"findings"`
	Audited  int                 `json:"audited"`
	Audit    []string            `json:"audit"`
	Indexes  []look.VerifyJSON   `json:"indexes"`
}

type repairFindingJSON struct {
	cli.CellNameJSON
	Start  tso.Timestamp `json:"start"`
	Commit tso.Timestamp `json:"commit,omitempty"`
	Text   string        `json:"text"`
}

func newRepairJSON(r model.RepairReport, dryRun bool) repairJSON {
	return repairJSON{To: r.To, Floor: r.Floor, Until: r.Until, DryRun: dryRun,
		RolledForward: r.RolledForward, RolledBack: r.RolledBack, Records: r.Records, Markers: r.Markers, Values: r.Data, Notifications: r.Notifications,
		States: r.States, Renotified: r.Renotified, WeakRenotified: r.WeakRenotified, Holds: r.Holds, Positions: r.Positions,
		Building: append([]string{}, r.Building...), Weak: append([]string{}, r.Weak...), Found: r.Found, Audited: r.Audited, Indexes: []look.VerifyJSON{},
		Findings: ordered.Map(r.Findings, func(f model.RepairFinding) repairFindingJSON {
			return repairFindingJSON{cli.NewCellNameJSON(f.Cell), f.Start, f.Commit, f.Text}
		}),
		Audit: ordered.Map(r.Audit, model.AuditFinding.String)}
}

// wrong reports whether an operator has to look.
func (out repairJSON) wrong() bool {
	n := int64(out.Found + out.Audited)
	for _, v := range out.Indexes {
		n += v.Damaged()
	}
	return n > 0
}

func (out repairJSON) print(w io.Writer) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintln(w, text.Line(fmt.Sprintf(format, args...))) }
	switch {
	case out.DryRun:
		say("a repair to %s would do this:", text.At(out.To))
	case out.Until == 0:
		say("no client can use the instance: the audit has found something")
	default:
		say("repaired to %s; snapshots above it are refused up to %s", text.At(out.To), text.At(out.Until))
	}
	say("locks: %d rolled forward, %d rolled back", out.RolledForward, out.RolledBack)
	say("removed: %d records, %d rollback markers, %d values, %d notifications, %d observer states, %d holds, %d positions",
		out.Records, out.Markers, out.Values, out.Notifications, out.States, out.Holds, out.Positions)
	say("notified again: %d cells, %d weak ones", out.Renotified, out.WeakRenotified)
	if len(out.Weak) > 0 {
		say("weak notifications erased above it left no trace, as there was no hold; notify the cells of %s again", strings.Join(text.Spans(out.Weak), ", "))
	}
	for _, name := range out.Building {
		say("%s", cli.ToBackfill(name))
	}
	for _, v := range out.Indexes {
		v.Print(w)
	}
	for _, text := range out.Audit {
		say("audit: %s", text)
	}
	if more := out.Audited - len(out.Audit); more > 0 {
		say("audit: %d more", more)
	}
	if out.Found == 0 {
		return
	}
	t := cli.NewTable(w, "TABLE", "ROW", "COLUMN", "START", "LOCK")
	for _, f := range out.Findings {
		t.Row(f.Table, f.Row, f.Column, int64(f.Start), f.Text)
	}
	if more := out.Found - len(out.Findings); more > 0 {
		t.Row("…", "", "", "", fmt.Sprintf("%d more", more))
	}
	t.Flush()
}
