package change

import (
	"bytes"
	"testing"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
)

// TestOneChangedCellStopsTheOthers: "drop --all" meets a cell that has changed since it was listed,
// and is not parked any more. The others were asked for as well.
func TestOneChangedCellStopsTheOthers(t *testing.T) {
	t.Parallel()
	cmd := NewNotifyDrop()
	var out bytes.Buffer
	cmd.SetOut(&out)
	f := parkedFlags{refusedFlags{all: true}}
	dropped := ""
	err := f.each(cmd, []observers.Parked{{Observer: "a"}, {Observer: "b"}, {Observer: "c"}}, "dropped", func(p observers.Parked) error {
		if p.Observer == "a" {
			return percolator.ErrConflict
		}
		dropped += p.Observer
		return nil
	})
	if dropped != "bc" {
		t.Errorf("of a, b and c, where a has changed, %q were dropped: %v\n%s", dropped, err, out.String())
	}
}
