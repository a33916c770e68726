//! FNV-1a, 64 bits: the hash by which YCSB spreads numbers.

const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a of bytes.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// `Utils.fnvhash64` of YCSB: FNV-1a of the number's eight bytes, lowest first. The result is the absolute value of the
/// hash as a signed number.
pub fn fnv_hash(number: u64) -> u64 {
    let hash = match u32::try_from(number) {
        // Four zero bytes at the end only multiply: once by the prime's fourth power instead of four times.
        Ok(number) => fnv1a(&number.to_le_bytes()).wrapping_mul(PRIME.wrapping_pow(4)),
        Err(_) => fnv1a(&number.to_le_bytes()),
    };
    hash.cast_signed().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_that_fnv_publishes() {
        // The test vectors of draft-eastlake-fnv, FNV-1a 64.
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn short_and_long_numbers_hash_by_their_eight_bytes() {
        let limit = u64::from(u32::MAX);
        for number in [0, 1, 12_345, limit - 1, limit, limit + 1, 9_999_999_999, u64::MAX] {
            let bytewise = fnv1a(&number.to_le_bytes());
            assert!(fnv_hash(number) == bytewise || fnv_hash(number) == bytewise.wrapping_neg(), "{number}");
        }
        // Worked out apart from this code.
        assert_eq!(fnv_hash(12_345), 1_792_800_413_050_876_852);
        assert_eq!(fnv_hash(9_999_999_999), 3_605_131_173_811_637_474);
    }

    #[test]
    fn hashes_are_those_of_the_keys_that_every_ycsb_load_begins_with() {
        // user6284781860667377211, user8517097267634966620, user1820151046732198393: records 0, 1 and 2.
        let first: Vec<u64> = (0..3).map(fnv_hash).collect();
        assert_eq!(first, [6_284_781_860_667_377_211, 8_517_097_267_634_966_620, 1_820_151_046_732_198_393]);
    }
}
