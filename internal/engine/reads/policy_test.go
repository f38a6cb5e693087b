package reads

import "testing"

// A table's reads name columns, then one at a time probes, then all ask for whole rows, until one
// is wide: then it begins again, and takes longer.
func TestPhasesOfATable(t *testing.T) {
	t.Parallel()
	p := (&readPolicy{first: 2, probe: 2}).of("t")
	asks := func(when string, several bool, want asked) {
		t.Helper()
		if got := p.ask(several); got != want {
			t.Errorf("%s: asked %d, want %d", when, got, want)
		}
	}
	for i := range 2 {
		asks("before the trial", i == 1, byName)
	}
	asks("several rows", true, byName)
	asks("the first probe", false, probe)
	asks("beside a probe", false, byName)
	p.endProbe(false) // for instance, it failed
	for range 2 {
		asks("a probe", false, probe)
		p.endProbe(true)
	}
	asks("after the probes", true, wholeRow)
	if p.phase() != allWhole {
		t.Errorf("phase %d", p.phase())
	}
	p.wide()
	p.wide() // another row of the same request
	for range 2 * trialGrowth {
		asks("before the next trial", false, byName)
	}
	asks("the next trial", false, probe)
	if p.endProbe(false); p.phase() != probing {
		t.Errorf("phase %d", p.phase())
	}
}
