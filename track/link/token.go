package link

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"sync"

	"sluice"
	"sluice/lib/token"
)

// A token of version 2 is, in base64url without padding (RFC 4648, 5), 44 bytes,
// numbers big-endian:
//
//	 0 version (2)     1 key id     2 kind     3 partition
//	 4 person, 8       12 id of the message, 16
//	28 number of the send, 2        30 number of the link, 2
//	32 MAC, 12: the first bytes of HMAC-SHA-256 of the 32 before and the target
//
// So each token has 59 characters, and a mail can be laid out before it is known
// who gets it. The target of a click is in its URL, beside the token: a changed one
// is seen. 96 bits of a MAC that can be tried by request alone are enough.
//
// A token of version 3 carries an address, for pages about a subscription. They
// work while the database is away and after the send is past its retention.
// Nobody but this deployment can read it:
//
//	0 version (3)     1 key id     2 kind     3 nonce, 12
//	15 AES-256-GCM of the bytes 3 to 31 of version 2, the address, and of mail of a
//	   subscription group a zero byte and the group, with bytes 0 to 2 as additional
//	   data; its tag is the last 16
//
// The nonce is the HMAC of what is encrypted: each attempt of a send has the same
// link, and two texts never share a nonce but by a collision of 96 bits.
//
// The key id is a byte that is derived from the secret. It chooses the key. Two
// secrets may have the same: then both are tried. Version 1 is that of lib/token,
// and what it has signed stays good. Its expiry and named fields have no place in
// 59 characters, and these links have no reason to end.

// Kind says what a link is for. The numbers stand in mails: never change one.
type Kind byte

// The kinds.
const (
	KindOpen        Kind = 1 // the pixel
	KindClick       Kind = 2
	KindUnsubscribe Kind = 3
	KindPreferences Kind = 4
)

// Sizes of tokens.
const (
	// TokenBytes is the length of a token that carries no address, in characters.
	TokenBytes = 59

	// MaxAddressBytes bounds an address in a token (RFC 5321, 4.5.3.1: 64 + 1 + 255).
	MaxAddressBytes = 320

	// MaxGroupBytes bounds a subscription group in a token: with the longest address
	// its link is still a header's line (RFC 5322, 2.1.1).
	MaxGroupBytes = 255

	// MaxTargetBytes bounds a click's target: some mail programs cut URLs off at
	// 2,000 characters, and each byte of it may be three in the URL.
	MaxTargetBytes = 1200

	// MaxLongTargetBytes bounds a target that is kept elsewhere: servers take no longer
	// lines of a request (RFC 9110, 4.1, asks for 8,000 at least).
	MaxLongTargetBytes = 8000

	versionPlace  = 2
	versionSealed = 3

	headBytes  = 32 // what the MAC of version 2 covers, beside the target
	macBytes   = 12
	placeBytes = headBytes + macBytes
	nonceBytes = 12
	frontBytes = 3 // version, key id, kind
	bareBytes  = headBytes - frontBytes
	tagBytes   = 16

	leastSealed = frontBytes + nonceBytes + bareBytes + tagBytes
	mostSealed  = leastSealed + MaxAddressBytes + 1 + MaxGroupBytes

	infoMAC  = "sluice-link-2-mac"
	infoSeal = "sluice-link-3-seal"
	infoID   = "sluice-link-key-id"
)

// ErrInvalid says that a token was not made here for this kind and target, or was
// changed. It does not say which.
var ErrInvalid = errors.New("the link is not valid")

// encoding is strict: of the last character no bit may be changed unseen.
var encoding = base64.RawURLEncoding.Strict()

// Place is where in all mail a link is.
type Place struct {
	Partition int    // whose log gets what is told of it
	Person    int64  // the user's number in that partition; 0: not known
	Message   string // the message's id
	Send      int    // which of the message's recipients
	Link      int    // which link of the mail, from 1; 0: the pixel, and pages about a subscription
}

// Keys makes links by one secret, and reads what earlier ones have made. Its
// methods may be called from several goroutines at once.
type Keys struct {
	base string // without a slash at its end
	keys []*key // the first one signs
}

// key is what one secret comes to.
type key struct {
	id     byte
	seal   cipher.AEAD
	macs   sync.Pool // of *mac
	secret []byte    // of the MAC
}

// mac is what a MAC is made with. Its hash holds the key, so that it is not
// hashed again for each token.
type mac struct {
	hash hash.Hash
	text []byte // head and target
	sum  [sha256.Size]byte
}

// NewKeys returns keys whose links begin with base, a URL without a slash at its
// end. The first secret signs; the others are previous ones. The error says which
// of them is too short, and shows none.
func NewKeys(base string, secrets ...[]byte) (*Keys, error) {
	if len(secrets) == 0 {
		return nil, errors.New("make keys of links: there is no secret")
	}
	k := &Keys{base: base}
	for i, secret := range secrets {
		if len(secret) < token.MinSecretBytes {
			return nil, fmt.Errorf("make keys of links: secret %d has %d bytes, want at least %d", i+1, len(secret), token.MinSecretBytes)
		}
		made, err := newKey(secret)
		if err != nil {
			return nil, fmt.Errorf("make keys of links: %w", err)
		}
		k.keys = append(k.keys, made)
	}
	return k, nil
}

// newKey derives what one secret comes to (RFC 5869).
func newKey(secret []byte) (*key, error) {
	var derived [3][]byte
	for i, info := range [...]string{infoMAC, infoSeal, infoID} {
		var err error
		if derived[i], err = hkdf.Key(sha256.New, secret, nil, info, sha256.Size); err != nil {
			return nil, err
		}
	}
	block, err := aes.NewCipher(derived[1])
	if err != nil {
		return nil, err
	}
	seal, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	k := &key{id: derived[2][0], seal: seal, secret: derived[0]}
	k.macs.New = func() any {
		return &mac{hash: hmac.New(sha256.New, k.secret), text: make([]byte, 0, headBytes+MaxTargetBytes)}
	}
	return k, nil
}

// appendHead appends what a token of version 2 says, without its MAC.
func (k *key) appendHead(b []byte, version byte, kind Kind, p *Place) ([]byte, error) {
	if !sluice.ValidMessageID(p.Message) || uint(p.Partition) >= sluice.MaxPartitions || p.Person < 0 || uint(p.Send) > 0xffff || uint(p.Link) > 0xffff {
		return nil, fmt.Errorf("make a link: send %.40q.%d, link %d of person %d in partition %d is out of bounds", p.Message, p.Send, p.Link, p.Person, p.Partition)
	}
	b = append(b, version, k.id, byte(kind), byte(p.Partition))
	b = binary.BigEndian.AppendUint64(b, uint64(p.Person))
	b, err := hex.AppendDecode(b, []byte(p.Message))
	if err != nil {
		return nil, fmt.Errorf("make a link: the id of the message: %w", err)
	}
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, uint16(p.Send)), uint16(p.Link)), nil
}

// readPlace reads the bytes 3 to 31 of a head.
func readPlace(b []byte) Place {
	return Place{
		Partition: int(b[0]), Person: int64(binary.BigEndian.Uint64(b[1:])), Message: hex.EncodeToString(b[9:25]),
		Send: int(binary.BigEndian.Uint16(b[25:])), Link: int(binary.BigEndian.Uint16(b[27:])),
	}
}

// sum appends the first n bytes of the HMAC of a head and a target.
func (k *key) sum(b, head []byte, target string, n int) []byte {
	m, _ := k.macs.Get().(*mac)
	m.hash.Reset()
	m.text = append(append(m.text[:0], head...), target...)
	_, _ = m.hash.Write(m.text) // never fails (hash.Hash)
	b = append(b, m.hash.Sum(m.sum[:0])[:n]...)
	k.macs.Put(m)
	return b
}

// AppendToken appends the token of a place, TokenBytes long. Of a click the target
// is signed with it; other kinds have none. The error says what is out of bounds.
func (k *Keys) AppendToken(b []byte, kind Kind, p *Place, target string) ([]byte, error) {
	if len(target) > MaxTargetBytes {
		return b, fmt.Errorf("make a link: the target has %d bytes, at most %d", len(target), MaxTargetBytes)
	}
	var raw [placeBytes]byte
	head, err := k.keys[0].appendHead(raw[:0], versionPlace, kind, p)
	if err != nil {
		return b, err
	}
	return encoding.AppendEncode(b, k.keys[0].sum(head, head, target, macBytes)), nil
}

// Read returns the place of a token that was made for a kind and a target. Anything
// else is ErrInvalid, and costs no memory.
func (k *Keys) Read(kind Kind, text, target string) (Place, error) {
	var raw [placeBytes]byte
	if len(text) != TokenBytes || len(target) > MaxTargetBytes {
		return Place{}, ErrInvalid
	}
	// The decoder passes over line breaks, which no token has: then it is too short.
	if n, err := encoding.Decode(raw[:], []byte(text)); err != nil || n != placeBytes || raw[0] != versionPlace || raw[2] != byte(kind) {
		return Place{}, ErrInvalid
	}
	head, good := raw[:headBytes], false
	for _, each := range k.keys {
		if each.id != raw[1] {
			continue
		}
		var want [macBytes]byte
		good = hmac.Equal(each.sum(want[:0], head, target, macBytes), raw[headBytes:]) || good
	}
	if !good {
		return Place{}, ErrInvalid
	}
	return readPlace(raw[frontBytes:headBytes]), nil
}

// Subject is whose subscription a page is about.
type Subject struct {
	Address string // without a zero byte
	Group   string // the subscription group that the mail belonged to; empty: none
}

// Seal returns a token of a place and a subject that nobody else can read.
func (k *Keys) Seal(kind Kind, p *Place, s Subject) (string, error) {
	if len(s.Address) > MaxAddressBytes || len(s.Group) > MaxGroupBytes || strings.IndexByte(s.Address, 0) >= 0 {
		return "", fmt.Errorf("make a link: the address has %d bytes and its group %d, at most %d and %d; no address has a zero byte", len(s.Address), len(s.Group), MaxAddressBytes, MaxGroupBytes)
	}
	signing := k.keys[0]
	head, err := signing.appendHead(make([]byte, 0, headBytes+len(s.Address)+1+len(s.Group)), versionSealed, kind, p)
	if err != nil {
		return "", err
	}
	text := append(head, s.Address...)
	if s.Group != "" {
		text = append(append(text, 0), s.Group...)
	}
	nonce := signing.sum(make([]byte, 0, nonceBytes), text, "", nonceBytes)
	raw := append(append(make([]byte, 0, leastSealed+len(text)-headBytes), head[:frontBytes]...), nonce...)
	return encoding.EncodeToString(signing.seal.Seal(raw, nonce, text[frontBytes:], head[:frontBytes])), nil
}

// Open returns the place and the subject of a token that Seal made for a kind, or
// ErrInvalid.
func (k *Keys) Open(kind Kind, text string) (Place, Subject, error) {
	if len(text) < encoding.EncodedLen(leastSealed) || len(text) > encoding.EncodedLen(mostSealed) {
		return Place{}, Subject{}, ErrInvalid
	}
	var front [frontBytes]byte // four characters: what is garbage ends here, and costs no memory
	if n, err := encoding.Decode(front[:], []byte(text[:4])); err != nil || n != frontBytes || front[0] != versionSealed || front[2] != byte(kind) || !k.has(front[1]) {
		return Place{}, Subject{}, ErrInvalid
	}
	raw, err := encoding.DecodeString(text)
	if err != nil || len(text) != encoding.EncodedLen(len(raw)) {
		return Place{}, Subject{}, ErrInvalid
	}
	nonce, sealed := raw[frontBytes:frontBytes+nonceBytes], raw[frontBytes+nonceBytes:]
	for _, each := range k.keys {
		if each.id != raw[1] {
			continue
		}
		if plain, err := each.seal.Open(nil, nonce, sealed, raw[:frontBytes]); err == nil {
			address, group, _ := strings.Cut(string(plain[bareBytes:]), "\x00")
			return readPlace(plain), Subject{Address: address, Group: group}, nil
		}
	}
	return Place{}, Subject{}, ErrInvalid
}

// has reports whether a key has an id.
func (k *Keys) has(id byte) bool {
	return slices.ContainsFunc(k.keys, func(each *key) bool { return each.id == id })
}
