package ycsb

import (
	"context"
	"fmt"

	"github.com/gopercolator/percolator/percolator"
)

// Ours is this project's transactions. A field is a column.
type Ours struct {
	client *percolator.Client
	fields []string
}

var balances = percolator.Int64(accountTable, balanceColumn)

// OurSchema is the schema of Ours.
func OurSchema() *percolator.Schema {
	return &percolator.Schema{Tables: []percolator.Table{{Name: recordTable}, {Name: accountTable}}}
}

// NewOurs returns the store of a client.
func NewOurs(c *percolator.Client, fields int) *Ours { return &Ours{c, fieldNames(fields)} }

// Promise implements Store, as do the other methods.
func (s *Ours) Promise() Promise {
	return Promise{Isolation: "snapshot", Atomic: "any rows and tables"}
}

func recordCell(key, field string) percolator.Cell {
	return percolator.Cell{Table: recordTable, Row: key, Column: field}
}

// record reads a row by scanning it: a scan asks for whole families, GetMulti for each column.
func (s *Ours) record(ctx context.Context, from percolator.Reader, key string) (Record, error) {
	r := make(Record, len(s.fields))
	for e, err := range from.Scan(ctx, recordTable, percolator.Row(key)) {
		if err == nil {
			err = r.put(e)
		}
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// put puts a field where it belongs.
func (r Record) put(e percolator.Entry) error {
	i, err := fieldNumber(e.Cell.Column)
	if err != nil {
		return err
	}
	if i >= len(r) {
		return fmt.Errorf("%s of %d fields", e.Cell.Column, len(r))
	}
	r[i] = e.Value
	return nil
}

func (s *Ours) Read(ctx context.Context, key string) (r Record, err error) {
	err = s.client.View(ctx, func(ctx context.Context, snap *percolator.Snapshot) error {
		r, err = s.record(ctx, snap, key)
		return err
	})
	return r, err
}

func (s *Ours) Update(ctx context.Context, key string, field int, value []byte) error {
	_, err := s.client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		return tx.Set(recordCell(key, s.fields[field]), value)
	}, percolator.Blind())
	return err
}

func (s *Ours) Insert(ctx context.Context, key string, r Record) error {
	_, err := s.client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		for i, v := range r {
			if err := tx.Set(recordCell(key, s.fields[i]), v); err != nil {
				return err
			}
		}
		return nil
	}, percolator.Blind())
	return err
}

func (s *Ours) Scan(ctx context.Context, from string, most int) (found []Record, err error) {
	err = s.client.View(ctx, func(ctx context.Context, snap *percolator.Snapshot) error {
		found = nil
		row := ""
		for e, err := range snap.ScanWith(ctx, recordTable, percolator.ScanOptions{
			Rows: []percolator.Range{percolator.Between(from, "")}, Limit: most}) {
			if err != nil {
				return err
			}
			if e.Cell.Row != row {
				row, found = e.Cell.Row, append(found, make(Record, len(s.fields)))
			}
			if err := found[len(found)-1].put(e); err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

func (s *Ours) Modify(ctx context.Context, key string, field int, value []byte) (r Record, err error) {
	_, err = s.client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		if r, err = s.record(ctx, tx, key); err != nil {
			return err
		}
		return tx.Set(recordCell(key, s.fields[field]), value)
	})
	return r, err
}

func (s *Ours) Deposit(ctx context.Context, account string, amount int64) error {
	_, err := s.client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		return balances.Set(tx, account, amount)
	}, percolator.Blind())
	return err
}

func (s *Ours) Balance(ctx context.Context, account string) (n int64, err error) {
	err = s.client.View(ctx, func(ctx context.Context, snap *percolator.Snapshot) error {
		n, err = balances.Get(ctx, snap, account)
		return err
	})
	return n, err
}

func (s *Ours) Transfer(ctx context.Context, from, to string, amount int64) error {
	_, err := s.client.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		both, err := balances.GetMulti(ctx, tx, from, to)
		if err != nil {
			return err
		}
		if len(both) != 2 {
			return errNoAccount
		}
		if err := balances.Set(tx, from, both[from]-amount); err != nil {
			return err
		}
		return balances.Set(tx, to, both[to]+amount)
	})
	return err
}

func (s *Ours) Total(ctx context.Context) (sum int64, accounts int, err error) {
	err = s.client.View(ctx, func(ctx context.Context, snap *percolator.Snapshot) error {
		sum, accounts = 0, 0
		for e, err := range balances.Scan(ctx, snap, percolator.All()) {
			if err != nil {
				return err
			}
			sum, accounts = sum+e.Value, accounts+1
		}
		return nil
	})
	return sum, accounts, err
}
