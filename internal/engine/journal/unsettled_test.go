package journal

import "testing"

// The earliest of what looks have found is told until its entry is settled, also while a copy
// stands for that.
func TestWhatLooksFindIsTold(t *testing.T) {
	t.Parallel()
	o, entries := owned(3)
	wantFound := func(what string, notified, taken, expired int) {
		t.Helper()
		if u := o.Unsettled(); int(u.Notified) != notified || int(u.Taken) != taken || int(u.Expired) != expired {
			t.Errorf("%s: notified %d, want %d; taken %d, want %d; expired %d, want %d", what, u.Notified, notified, u.Taken, taken, u.Expired, expired)
		}
	}
	wantFound("before any look", 0, 0, 0)
	o.Found(entries[0], Backlog{7, 7, 0}, false)
	o.Found(entries[1], Backlog{5, 0, 9}, false)
	o.Found(entries[2], Backlog{0, 0, 8}, false)
	wantFound("after looks", 5, 7, 8)
	to := &Append{entry: entries[1].entry}
	o.sent("stream", 4, []*part{{entry: to.entry, of: to}})
	o.Copied(entries[1], to)
	wantFound("appended again", 5, 7, 8)
	o.Found(entries[2], Backlog{0, 0, 0}, false)
	wantFound("a look that found nothing", 5, 7, 9)
	o.RolledBack(to)
	wantFound("settled", 7, 7, 0)
}
