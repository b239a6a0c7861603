package errortext

// numbered are words, in lower case, whose final number belongs to the name.
var numbered = set(`
	int uint float utf ucs sha md crc ipv http h v tls tlsv ssl sslv oauth base x s p k log ec rs hs es
	ps aes rc latin cp windows win java jdk python py ed secp bcrypt argon mp web amd arm iso ntlmv
	mqttv snmpv smbv`)

// part reads a part of a word (letters and digits), as delimited by underscores. It returns how
// much of the part is kept, and whether the rest varies.
func part(p string) (keep int, varies bool) {
	letters, digits, runs, uppers, humps, onlyHex := 0, 0, 0, 0, 0, true
	for i := range len(p) {
		switch c := p[i]; {
		case is(c, digit):
			if digits++; i == 0 || !is(p[i-1], digit) {
				runs++
			}
		default:
			if letters++; is(c, upper) {
				uppers++
				if i > 0 && is(p[i-1], small) {
					humps++
				}
			}
			onlyHex = onlyHex && is(c, hex)
		}
	}
	n := len(p)
	whole, none := n, 0
	switch {
	case digits == 0:
		return whole, false
	case letters == 0:
		return none, true
	case hasPrefixFold(p, "0x") && n > 2 && all(p[2:], hex):
		return none, true
	}
	first := span(p, 0, letter)
	if first > 0 && first+digits == n { // letters followed by digits
		return lettersDigits(p, first, uppers, humps, onlyHex)
	}
	capitals := uppers == letters
	switch {
	case n <= 3: // k8s, 2FA, 5xx
		return whole, false
	case n == 5 && capitals && is(p[3], digit) && is(p[4], digit): // 22P02, a SQLSTATE
		return whole, false
	case capitals && n <= 8 && first > 0 && first <= 4 && runs == 1 && digits <= 4: // SQL0803N
		return whole, false
	case onlyHex && n >= 6:
		return none, true
	case runs == 1 && digits <= 2 && first > 0 && wordLike(n, uppers, humps): // OrderV1Handler, base64url
		return whole, false
	case n <= 5 && runs == 1 && is(p[0], letter): // i18n, log4j
		return whole, false
	case numberedAt(p, first, n):
		return whole, false
	}
	return none, true
}

// wordLike reports whether the letters around a number look like words: short and in lower case, or
// in CamelCase.
func wordLike(n, uppers, humps int) bool {
	if uppers == 0 {
		return n <= 12
	}
	return humps > 0 && 5*humps <= n
}

// numberedAt reports whether a word begins with one of numbered and its number, as in log4j2 and
// utf8mb4.
func numberedAt(p string, first, n int) bool {
	var buf [8]byte
	return first > 1 && first < cap(buf) && n <= 9 && numbered[string(inLower(buf[:0], p[:first]))]
}

// lettersDigits reads letters followed by digits. The digits are dropped unless they belong to a
// name, as in sha256, or to a code, as in E1001.
func lettersDigits(p string, first, uppers, humps int, onlyHex bool) (keep int, varies bool) {
	n, digits := len(p), len(p)-first
	var buf [8]byte
	name := inLower(buf[:0], p[:first])
	switch {
	case first < cap(buf) && numbered[string(name)] && digits <= 4:
		return n, false
	case uppers == first && first <= 4 && digits <= 4: // E1001, ERR42
		return n, false
	case uppers == first && first <= 4 && digits <= 6 && codeWords[string(name)].digits >= digits: // ORA00942
		return n, false
	case onlyHex && n >= 8:
		return 0, true
	case humps > 0 && digits <= 2 && 5*humps <= n && string(name[:min(5, len(name))]) != "proxy": // PaymentV2
		return n, false
	case humps > 0 && 3*humps > first && n >= 8: // random letters
		return 0, true
	}
	return first, true
}

// random reports whether mixed-case letters are not words because the case changes too often.
func random(p string) bool {
	humps := 0
	for i := 1; i < len(p); i++ {
		if is(p[i], upper) && is(p[i-1], small) {
			humps++
		}
	}
	return len(p) >= 8 && humps > 1 && 4*humps >= len(p)-4
}
