package strictjson

// maxExponent caps the parsed value of an exponent. It is far higher than any number within the
// limits needs, and lower than the exponents that PostgreSQL rejects even for zero.
const maxExponent = 1_000_000

// number reads a number and writes it as a decimal without an exponent.
func (p *parser) number() *Error {
	src, start := p.src, p.pos
	i := start
	if src[i] == '-' {
		i++
	}
	first := i
	if i = skipDigits(src, i); i == first {
		return p.missingDigit(i)
	}
	whole := src[first:i]
	if whole[0] == '0' && len(whole) > 1 {
		return p.fault(CodeSyntax, first, "a number must not begin with zeros")
	}
	var fraction []byte
	if i < len(src) && src[i] == '.' {
		i++
		point := i
		if i = skipDigits(src, i); i == point {
			return p.missingDigit(i)
		}
		fraction = src[point:i]
	}
	exponent := 0
	if i < len(src) && (src[i] == 'e' || src[i] == 'E') {
		i++
		down := i < len(src) && src[i] == '-'
		if down || i < len(src) && src[i] == '+' {
			i++
		}
		power := i
		if i = skipDigits(src, i); i == power {
			return p.missingDigit(i)
		}
		for _, c := range src[power:i] {
			exponent = min(exponent*10+int(c-'0'), maxExponent)
		}
		if exponent == maxExponent {
			return p.outOfRange(start)
		}
		if down {
			exponent = -exponent
		}
	}
	p.pos = i

	if exponent == 0 && src[start] != '-' {
		if len(whole)+len(fraction) > p.maxDigits {
			return p.outOfRange(start)
		}
		p.out = append(p.out, whole...)
		if len(fraction) > 0 {
			p.out = append(p.out, '.')
			p.out = append(p.out, fraction...)
		}
		return nil
	}
	return p.decimal(start, whole, fraction, exponent)
}

// maxGrowth is how many digits the exponents of all numbers in one document together may add.
// Without it, a megabyte of 1e399 would grow to eighty megabytes.
const maxGrowth = 64 << 10

// decimal writes whole.fraction * 10^exponent without the exponent, in the way of PostgreSQL's
// numeric: it keeps the digits of the fraction that remain after the exponent has moved the point,
// and omits the sign of zero.
func (p *parser) decimal(start int, whole, fraction []byte, exponent int) *Error {
	digit := func(k int) byte {
		if k < len(whole) {
			return whole[k]
		}
		return fraction[k-len(whole)]
	}
	// All positions are counted in the digits of whole and fraction together.
	count := len(whole) + len(fraction)
	point := len(whole) + exponent
	scale := max(0, len(fraction)-exponent)
	lead := 0 // index of the first nonzero digit
	for lead < count && digit(lead) == '0' {
		lead++
	}
	if lead == count { // for zero, an exponent changes only the scale
		point = len(whole)
	}

	from := min(lead, point-1) // at least one digit before the point
	if point+scale-from > p.maxDigits {
		return p.outOfRange(start)
	}
	if p.grown += max(0, point+scale-from-count); p.grown > maxGrowth {
		return p.outOfRange(start)
	}
	if p.src[start] == '-' && lead < count {
		p.out = append(p.out, '-')
	}
	for k := from; k < point+scale; k++ {
		if k == point {
			p.out = append(p.out, '.')
		}
		if k < 0 || k >= count {
			p.out = append(p.out, '0')
		} else {
			p.out = append(p.out, digit(k))
		}
	}
	return nil
}

func skipDigits(src []byte, i int) int {
	for i < len(src) && '0' <= src[i] && src[i] <= '9' {
		i++
	}
	return i
}

func (p *parser) missingDigit(at int) *Error {
	p.pos = at
	return p.unexpected("expected a digit")
}

func (p *parser) outOfRange(start int) *Error {
	return p.fault(CodeNumberOutOfRange, start, "number has too many digits")
}
