/* State that every engine of the process would share. */
int planted_count(void);
int planted_last(int now);

static int count = 1;

int planted_count(void)
{
    return count++;
}

int planted_last(int now)
{
    static int last;
    int before = last;
    last = now;
    return before;
}
