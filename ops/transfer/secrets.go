package transfer

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"sluice/store"
)

// What signs the links in mails is a row of the table secrets, unless the
// configuration has it. Anyone who has it can unsubscribe and confirm for any
// user, so it is in no backup as it is: it is left out, or sealed with a passphrase.
//
// A sealed cell is sealMark, a salt, a nonce, and AES-256-GCM of the cell with the
// name of the secret as additional data. The key is PBKDF2 (HMAC-SHA-256) of the
// passphrase.
const (
	secretsTable = "secrets"

	SecretsLeftOut = "left out"
	SecretsSealed  = "sealed"

	sealMark      = "sluice-sealed-1\n"
	sealSaltBytes = 16
	sealRounds    = 600_000

	// MinPassphraseBytes is how long a passphrase has to be: a reader of the file can
	// guess at it without limit.
	MinPassphraseBytes = 16
	MaxPassphraseBytes = 1024
)

func sealer(passphrase string, salt []byte) (cipher.AEAD, error) {
	key, err := pbkdf2.Key(sha256.New, passphrase, salt, sealRounds, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// seal packs a secret with a passphrase.
func seal(passphrase, name, data string) (string, error) {
	salt := make([]byte, sealSaltBytes)
	_, _ = rand.Read(salt) // never fails (crypto/rand)
	box, err := sealer(passphrase, salt)
	if err != nil {
		return "", fmt.Errorf("seal the secret %s: %w", name, err)
	}
	nonce := make([]byte, box.NonceSize())
	_, _ = rand.Read(nonce)
	return sealMark + string(salt) + string(box.Seal(nonce, nonce, []byte(data), []byte(name))), nil
}

// errPassphrase is told of a passphrase that opens nothing.
var errPassphrase = errors.New("the passphrase is not the one that the backup was made with, or the file was changed")

// unseal undoes seal.
func unseal(passphrase, name, sealed string) (string, error) {
	rest, ok := bytes.CutPrefix([]byte(sealed), []byte(sealMark))
	if !ok || len(rest) < sealSaltBytes {
		return "", errors.New("it is not sealed as this program does it: run the one that made the backup, or a newer one")
	}
	box, err := sealer(passphrase, rest[:sealSaltBytes])
	if err != nil {
		return "", err
	}
	rest = rest[sealSaltBytes:]
	if len(rest) < box.NonceSize() {
		return "", errPassphrase
	}
	data, err := box.Open(nil, rest[:box.NonceSize()], rest[box.NonceSize():], []byte(name))
	if err != nil {
		return "", errPassphrase
	}
	return string(data), nil
}

// eachSecret calls f for each cell of a row that is a secret's own text.
func eachSecret(columns []store.DumpColumn, cells []store.Cell, f func(name, data string) (string, error)) error {
	name := ""
	for i, c := range columns {
		if c.Name == "name" {
			name = cells[i].Text
		}
	}
	for i, c := range columns {
		if c.Kind != store.DumpBytes || cells[i].Kind == store.CellNull {
			continue
		}
		text, err := f(name, cells[i].Text)
		if err != nil {
			return err
		}
		cells[i].Text = text
	}
	return nil
}

// openSecrets makes sure that the secrets of the archive can be read, before
// anything is emptied for them.
func (r *Restore) openSecrets() error {
	switch {
	case r.Archive.Secrets != SecretsSealed || r.WithoutSecrets || !r.Tables:
		return nil
	case r.Passphrase == "":
		return errors.New("the secret that signs links is sealed in the backup: give its passphrase by --passphrase-file, or say --without-secrets; then links in mails that were sent before are good only if the configuration has the secret")
	}
	for _, table := range r.Archive.Tables {
		if table.Name != secretsTable {
			continue
		}
		row := newRowReader(table.Columns)
		return r.Archive.Lines("sql/"+secretsTable, func(line string) error {
			cells, err := row.read(nil, line)
			if err != nil {
				return err
			}
			return r.unsealRow(table.Columns, cells)
		})
	}
	return nil
}

func (r *Restore) unsealRow(columns []store.DumpColumn, cells []store.Cell) error {
	if r.Archive.Secrets != SecretsSealed {
		return nil // a backup of before has them as they are
	}
	return eachSecret(columns, cells, func(name, data string) (string, error) { return unseal(r.Passphrase, name, data) })
}

// dumpSecrets writes the table of the secrets, sealed or without its rows. Where there
// are none, nothing is left out.
func (b *Backup) dumpSecrets(ctx context.Context, w *archiveWriter, m *Manifest, snapshot store.Snapshot, table store.DumpTable) error {
	out := &lines{to: w, kind: "sql/" + table.Name}
	if b.Passphrase == "" {
		err := snapshot.Rows(ctx, table.Name, func([]store.Cell) error {
			m.Secrets = SecretsLeftOut
			return nil
		})
		if err != nil {
			return err
		}
	} else {
		m.Secrets = SecretsSealed
		err := snapshot.Rows(ctx, table.Name, func(cells []store.Cell) error {
			err := eachSecret(table.Columns, cells, func(name, data string) (string, error) { return seal(b.Passphrase, name, data) })
			if err != nil {
				return err
			}
			return out.add(func(line []byte) []byte { return appendRow(line, table.Columns, cells) })
		})
		if err == nil {
			err = out.flush()
		}
		if err != nil {
			return err
		}
	}
	m.Tables = append(m.Tables, ManifestTable{DumpTable: table, Rows: out.total})
	return nil
}
