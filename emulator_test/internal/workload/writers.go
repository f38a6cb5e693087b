package workload

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gopercolator/percolator/percolator"
)

// listCell is the list that is being appended to under a number.
func (w *Workload) listCell(n int) percolator.Cell {
	return cell(lists, fmt.Sprintf("%d-%06d", n, w.generations[n].Load()), "items")
}

// appendTo appends an element to a list, which is given up when it is long enough.
func (a *attempt) appendTo(ctx context.Context, n int, forUpdate bool) error {
	c := a.s.listCell(n)
	read := a.get
	if forUpdate {
		read = a.getForUpdate
	}
	v, err := read(ctx, c)
	if err != nil {
		return err
	}
	if strings.Count(string(v), " ") >= listLength {
		a.s.generations[n].CompareAndSwap(generationOf(c), generationOf(c)+1)
		return errGiveUp
	}
	return a.set(c, append(v, strconv.FormatInt(a.s.ids.Add(1), 10)+" "...))
}

func generationOf(c percolator.Cell) int64 {
	n, _ := strconv.ParseInt(c.Row[strings.Index(c.Row, "-")+1:], 10, 64)
	return n
}

func (s *Session) appendToLists(ctx context.Context) {
	s.transact(ctx, options{kind: "append"}, func(ctx context.Context, a *attempt) error {
		for _, n := range s.Rand.Perm(activeLists)[:1+s.Rand.IntN(2)] {
			if err := a.appendTo(ctx, n, s.Rand.IntN(5) == 0); err != nil {
				return err
			}
		}
		return nil
	})
}

func account(n int) percolator.Cell { return cell(bank, fmt.Sprintf("a%d", n), "balance") }

func (s *Session) transfer(ctx context.Context) {
	s.transact(ctx, options{kind: "transfer"}, func(ctx context.Context, a *attempt) error {
		of := s.Rand.Perm(accounts)
		from, to := account(of[0]), account(of[1])
		values, err := a.getMulti(ctx, from, to)
		if err != nil {
			return err
		}
		amount := 1 + s.Rand.Int64N(20)
		if err := a.set(from, a.unique(strconv.FormatInt(number(values[0])-amount, 10))); err != nil {
			return err
		}
		return a.set(to, a.unique(strconv.FormatInt(number(values[1])+amount, 10)))
	})
}

// readCounter scans the row instead of getting the cell: a scan tells when the value was committed,
// and all who overwrite a counter have read it like that, so transactions on one counter need no
// receipt.
func (a *attempt) readCounter(ctx context.Context, c percolator.Cell) (int64, error) {
	es, err := a.scan(ctx, c.Table, c.Row, c.Row+"\x00", c.Column)
	if err != nil || len(es) == 0 {
		return 0, err
	}
	return number(es[0].Value), nil
}

// count increments a counter, which no session ever sees go back.
func (s *Session) count(ctx context.Context) {
	s.transact(ctx, options{kind: "count", noReceipt: s.Rand.IntN(2) == 0}, func(ctx context.Context, a *attempt) error {
		c := cell(registers, fmt.Sprintf("counter%d", s.Rand.IntN(counters)), "n")
		n, err := a.readCounter(ctx, c)
		if err != nil {
			return err
		}
		if n < s.counted[c.Row] {
			a.rec.Broken("%s is %d and was %d", c, n, s.counted[c.Row])
		}
		s.counted[c.Row] = n
		return a.set(c, a.unique(strconv.FormatInt(n+1, 10)))
	})
}

func wideCells(row int) (cells []percolator.Cell) {
	for i := range wideColumns {
		cells = append(cells, cell(registers, fmt.Sprintf("wide%d", row), fmt.Sprintf("x%d", i)))
	}
	return cells
}

// rewriteWideRow writes the same text to all columns of a row, which are therefore always equal.
func (s *Session) rewriteWideRow(ctx context.Context) {
	s.transact(ctx, options{kind: "wide row"}, func(ctx context.Context, a *attempt) error {
		cells := wideCells(s.Rand.IntN(wideRows))
		values, err := a.getMulti(ctx, cells...)
		if err != nil {
			return err
		}
		a.checkEqual(values)
		v := a.unique("")
		for _, c := range cells {
			if err := a.set(c, v); err != nil {
				return err
			}
		}
		return nil
	})
}

func (a *attempt) checkEqual(values [][]byte) {
	for _, v := range values {
		if string(v) != string(values[0]) {
			a.rec.Broken("the columns of a wide row differ")
			return
		}
	}
}

// occupySlot inserts into a cell or deletes it.
func (s *Session) occupySlot(ctx context.Context) {
	s.transact(ctx, options{kind: "slot"}, func(ctx context.Context, a *attempt) error {
		c := cell(registers, fmt.Sprintf("slot%d", s.Rand.IntN(slots)), "s")
		switch s.Rand.IntN(3) {
		case 0:
			return a.delete(c)
		case 1: // deleted and put in one transaction
			if err := a.delete(c); err != nil {
				return err
			}
			return a.set(c, a.unique("taken"))
		}
		return a.insert(c, a.unique("taken"))
	})
}

func node(name string) percolator.Cell { return cell(ring, name, "next") }

func nodeName(n int) string { return fmt.Sprintf("n%d", n) }

// permute moves a node of the ring behind the one that follows it.
func (s *Session) permute(ctx context.Context) {
	s.transact(ctx, options{kind: "permute"}, func(ctx context.Context, a *attempt) error {
		at := nodeName(s.Rand.IntN(nodes))
		var path []string // a → b → c → d becomes a → c → b → d
		for range 3 {
			path = append(path, at)
			v, err := a.get(ctx, node(at))
			if err != nil {
				return err
			}
			at = says(v)
		}
		for i, next := range []string{path[2], at, path[1]} {
			if err := a.set(node(path[i]), a.unique(next)); err != nil {
				return err
			}
		}
		return nil
	})
}

func duty(n int) percolator.Cell { return cell(registers, fmt.Sprintf("duty%d", n), "on") }

// changeDuty sends one of two off duty if the other is on, and on duty otherwise. Both reads lock.
func (s *Session) changeDuty(ctx context.Context) {
	lockReads := s.Rand.IntN(2) == 0
	s.transact(ctx, options{kind: "duty", lockReads: lockReads}, func(ctx context.Context, a *attempt) error {
		read := a.getForUpdate
		if lockReads {
			read = a.get
		}
		var on [2]bool
		if lockReads && s.Rand.IntN(2) == 0 {
			if _, err := a.scan(ctx, registers, "duty", "duty~", "on"); err != nil {
				return err
			}
		}
		for i := range on {
			v, err := read(ctx, duty(i))
			if err != nil {
				return err
			}
			on[i] = says(v) == "on"
		}
		me := s.Rand.IntN(2)
		switch {
		case !on[0] && !on[1]:
			a.rec.Broken("nobody is on duty")
			return a.set(duty(me), a.unique("on"))
		case on[me] && on[1-me]:
			return a.set(duty(me), a.unique("off"))
		case !on[me]:
			return a.set(duty(me), a.unique("on"))
		}
		return errGiveUp
	})
}

func person(n int, column string) percolator.Cell {
	return cell(people, fmt.Sprintf("p%d", n), column)
}

// movePerson gives a person another city, another address or none, or swaps the addresses of two.
func (s *Session) movePerson(ctx context.Context) {
	s.transact(ctx, options{kind: "people"}, func(ctx context.Context, a *attempt) error {
		of := s.Rand.Perm(persons)
		mail := []byte(fmt.Sprintf("m%02d", s.Rand.IntN(mails)))
		city := []byte(fmt.Sprintf("city%d", s.Rand.IntN(cities)))
		switch s.Rand.IntN(6) {
		case 0:
			return a.set(person(of[0], "city"), city)
		case 1:
			if err := a.delete(person(of[0], "mail")); err != nil {
				return err
			}
			return a.delete(person(of[0], "city"))
		case 2:
			x, y := person(of[0], "mail"), person(of[1], "mail")
			v, err := a.getMulti(ctx, x, y)
			if err != nil || v[0] == nil || v[1] == nil {
				return orGiveUp(err)
			}
			if err := a.set(x, v[1]); err != nil {
				return err
			}
			return a.set(y, v[0])
		case 3:
			return a.insert(person(of[0], "mail"), mail)
		}
		if err := a.set(person(of[0], "mail"), mail); err != nil {
			return err
		}
		return a.set(person(of[0], "city"), city)
	})
}

func orGiveUp(err error) error {
	if err != nil {
		return err
	}
	return errGiveUp
}

// blindWrite overwrites without having read.
func (s *Session) blindWrite(ctx context.Context) {
	s.transact(ctx, options{kind: "blind", blind: true}, func(ctx context.Context, a *attempt) error {
		return a.set(cell(registers, fmt.Sprintf("blind%d", s.Rand.IntN(2)), "b"), a.unique(""))
	})
}

// takeMail gives a person an address that may be taken, without having read.
func (s *Session) takeMail(ctx context.Context) {
	s.transact(ctx, options{kind: "blind mail", blind: true}, func(_ context.Context, a *attempt) error {
		return a.set(person(s.Rand.IntN(persons), "mail"), []byte(fmt.Sprintf("m%02d", s.Rand.IntN(mails))))
	})
}

// countUp adds one to a counter that many write.
func (s *Session) countUp(ctx context.Context, a *attempt) error {
	c := cell(registers, fmt.Sprintf("counter%d", s.Rand.IntN(counters)), "n")
	n, err := a.readCounter(ctx, c)
	if err != nil {
		return err
	}
	return a.set(c, a.unique(strconv.FormatInt(n+1, 10)))
}

// mixed touches several tables at once.
func (s *Session) mixed(ctx context.Context) {
	s.transact(ctx, options{kind: "mixed"}, func(ctx context.Context, a *attempt) error {
		if err := s.countUp(ctx, a); err != nil {
			return err
		}
		if err := a.appendTo(ctx, s.Rand.IntN(activeLists), false); err != nil {
			return err
		}
		return a.set(person(s.Rand.IntN(persons), "city"), []byte(fmt.Sprintf("city%d", s.Rand.IntN(cities))))
	})
}

// page begins the rows that are published.
const page = "page-"

// publish writes rows without other writers, after a cell that many write: when the client dies
// between the two, they are observed cells whose notification only lock resolution can write, and
// their primary's record is soon garbage.
func (s *Session) publish(ctx context.Context) {
	s.transact(ctx, options{kind: "publish"}, func(ctx context.Context, a *attempt) error {
		if err := s.countUp(ctx, a); err != nil {
			return err
		}
		for i := range 1 + s.Rand.IntN(2) {
			s.page = cell(lists, fmt.Sprintf("%s%08d-%d", page, a.id, i), "items")
			if err := a.set(s.page, []byte(fmt.Sprintf("%d.%d ", a.id, i))); err != nil {
				return err
			}
		}
		return nil
	})
}

// revise changes the page that the session published last, once: with luck while an observer is at
// work on it, who then has to come again.
func (s *Session) revise(ctx context.Context) {
	if s.page.Row == "" {
		s.publish(ctx)
	}
	c := s.page
	s.page = percolator.Cell{}
	wait(ctx, time.Duration(s.Rand.Int64N(int64(50*time.Millisecond))))
	s.transact(ctx, options{kind: "revise"}, func(ctx context.Context, a *attempt) error {
		v, err := a.get(ctx, c)
		if err != nil || v == nil {
			return orGiveUp(err)
		}
		return a.set(c, append(v, strconv.FormatInt(a.id, 10)+" "...))
	})
}

// withdraw deletes old pages and lists, which their observers have to see.
func (s *Session) withdraw(ctx context.Context) {
	s.transact(ctx, options{kind: "withdraw"}, func(ctx context.Context, a *attempt) error {
		n := s.Rand.IntN(activeLists)
		from, to := page, fmt.Sprintf("%s%08d", page, max(s.ids.Load()-keptBack, 0))
		if s.Rand.IntN(4) == 0 {
			from, to = fmt.Sprintf("%d-", n), fmt.Sprintf("%d-%06d", n, max(s.generations[n].Load()-oldLists, 0))
		}
		old, err := Reader{Scanner: a.tx, rec: a.rec}.scanFirst(ctx, lists, from, to, 1+s.Rand.IntN(20), "items")
		if err != nil || len(old) == 0 {
			return orGiveUp(err)
		}
		for _, e := range old {
			if err := a.delete(percolator.Cell(e.Cell)); err != nil {
				return err
			}
		}
		return nil
	})
}
